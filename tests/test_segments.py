"""Segments: sums over runs of points, their derivatives, and parts of them."""

import torch

from geobias_torch.segments import Segments, labels, repeat, spans, take_runs

OFFSETS, MEMBERS = torch.tensor([0, 3, 3, 5, 9]), torch.tensor([4, 0, 2, 2, 1, 5, 3, 0, 4], dtype=torch.int32)
SEGMENTS = Segments(OFFSETS, MEMBERS, 6)  # the second is empty


def values():
    return torch.rand(6, generator=torch.Generator().manual_seed(0), dtype=torch.float64).requires_grad_()


def runs(of=SEGMENTS):
    return [of.members[a:b].tolist() for a, b in zip(of.offsets[:-1], of.offsets[1:], strict=True)]


def test_moments_are_the_sums_of_values_and_squares():
    v = values()
    expected = [[sum(float(v.detach()[i]) ** power for i in run) for power in (1, 2)] for run in runs()]
    torch.testing.assert_close(SEGMENTS.moments(v), torch.tensor(expected, dtype=torch.float64))
    torch.testing.assert_close(SEGMENTS.sum(torch.stack([v, v.square()], dim=1)), SEGMENTS.moments(v))


def test_first_and_second_derivatives_of_the_moments():
    assert torch.autograd.gradcheck(SEGMENTS.moments, [values()])
    assert torch.autograd.gradgradcheck(SEGMENTS.moments, [values()])


def test_parts_of_them():
    assert runs(SEGMENTS.of(torch.tensor([3, 1, 0]))) == [runs()[3], runs()[1], runs()[0]]
    assert runs(SEGMENTS.of(torch.tensor([], dtype=torch.int64))) == []
    known = torch.tensor([True, True, False, True, True, False])
    assert runs(SEGMENTS.only(known)) == [[i for i in run if known[i]] for run in runs()]


def test_runs_of_a_list():
    starts, lengths = torch.tensor([5, 0, 3, 3]), torch.tensor([2, 3, 0, 1])
    positions, offsets = spans(starts, lengths)
    assert positions.tolist() == [5, 6, 0, 1, 2, 3]
    assert offsets.tolist() == [0, 2, 5, 5, 6]
    listed = torch.arange(10, 20, dtype=torch.int32)
    assert torch.equal(take_runs(listed, starts, lengths), listed[positions])
    assert labels(lengths).tolist() == [0, 0, 1, 1, 1, 3]
    assert repeat(torch.tensor([7.0, 8.0]), torch.tensor([0, 2])).tolist() == [8, 8]
