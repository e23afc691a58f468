import pickle
import random

import numpy as np
import pytest
import torch

from judges.rubrics import SHARED_EVIDENCE
from judges.scorers import CausalLMScorer
from judges.scorers.forward import Forward, batches, packs
from judges.scorers.readout import out_of_memory
from tests.judges.causal import CLOSE, CONTEXTS, LAYOUTS, STATEMENTS, per_pair, scorer_of, watched
from tests.judges.models import POINTS, tiny_chat_model, tiny_model, tiny_tokenizer

# batches and memory


def test_batches_are_bounded_and_tight():
    rng = random.Random(0)
    for _ in range(50):
        lengths = [rng.randint(1, 60) for _ in range(rng.randint(1, 40))]
        past, bound = rng.randint(0, 300), rng.randint(400, 3000)
        cut = batches(lengths, past, bound)
        assert sorted(row for batch in cut for row in batch) == list(range(len(lengths)))
        for batch in cut:
            longest = max(lengths[row] for row in batch)
            assert len(batch) * (past + longest) <= bound
            assert sum(lengths[row] for row in batch) >= 0.9 * len(batch) * longest
        for batch in batches(lengths, past, bound, equal=True):
            assert len({lengths[row] for row in batch}) == 1
        cut = packs(lengths, past, bound, largest=200)
        assert [row for pack in cut for row in pack] == list(range(len(lengths)))
        assert all(sum(lengths[row] for row in pack) <= min(200, bound - past) for pack in cut)
    assert batches([], 0, 10) == packs([], 0, 10, 10) == []
    assert batches([50], 0, 10) == packs([50], 0, 10, 10) == [[0]]


@pytest.mark.parametrize("layout", ["packed", "padded"])
@pytest.mark.parametrize("bound", [900, 1800, 100_000])
def test_no_batch_holds_more_than_its_bound(bound, layout, monkeypatch):
    monkeypatch.setattr(Forward, "_takes_masks", lambda self, past: layout == "packed")
    model, tokenizer = tiny_chat_model("qwen3")
    calls = watched(model, monkeypatch)
    scores = CausalLMScorer((model, tokenizer), min_mass=0.0, max_batch_tokens=bound).score(STATEMENTS, CONTEXTS)
    assert set(scores.reason) == {None}
    assert max(call["held"] + call["new"] for call in calls) <= bound
    assert len(calls) < (11 if layout == "packed" or bound > 1800 else 40)
    expected = scorer_of("qwen3").score(STATEMENTS, CONTEXTS).value
    assert torch.allclose(scores.value, expected, rtol=0, atol=CLOSE)


def test_few_tokens_are_run(monkeypatch):
    model, tokenizer = tiny_chat_model("qwen3")
    scorer = CausalLMScorer((model, tokenizer), min_mass=0.0)
    scorer.score(["x"], [("y",)])
    calls = watched(model, monkeypatch)
    scorer._loaded[1].model = model
    scorer.score(list(POINTS) * 2, [POINTS[:6]] * 8 + [POINTS[2:]] * 8)
    prompter = scorer._loaded[0]
    prompts = prompter.encode([(point, context) for context in (POINTS[:6], POINTS[2:]) for point in POINTS])
    start = len(prompter.start)
    distinct = {tuple(prompt[:end]) for prompt in prompts for end in range(start + 1, len(prompt) + 1)}
    assert sum(call["new"] for call in calls) <= 1.05 * len(distinct)


def test_prompts_too_long_have_no_value():
    long = " ".join(POINTS)
    scores = scorer_of("qwen3", max_batch_tokens=800).score(["red soil", long], [("red soil",), POINTS * 3])
    assert scores.reason == (None, "prompt too long")
    short = CausalLMScorer((tiny_model("qwen3", max_position_embeddings=300), tiny_tokenizer("qwen3")), min_mass=0.0)
    assert short.score(["red soil"], [("red soil",)]).reason == ("prompt too long",)


@pytest.mark.parametrize(("name", "room"), [("qwen3", 150), ("llama, padded", 1), ("sliding", 1), ("hybrid", 3)])
def test_out_of_memory_halves_the_batch(name, room, monkeypatch):
    layout = LAYOUTS[name]
    if layout == "padded":
        monkeypatch.setattr(Forward, "_takes_masks", lambda self, past: False)
    model, tokenizer = tiny_chat_model(name.removesuffix(", padded"))
    expected, _ = per_pair(model, tokenizer, STATEMENTS, CONTEXTS)
    scorer = CausalLMScorer((model, tokenizer), min_mass=0.0)
    scorer._load()[1]._start()
    forward, sizes = model.forward, []

    def cramped(**inputs):
        sizes.append(inputs["input_ids"].numel() if layout == "packed" else len(inputs["input_ids"]))
        if sizes[-1] > room:
            raise torch.cuda.OutOfMemoryError("simulated")
        return forward(**inputs)

    monkeypatch.setattr(model, "forward", cramped)
    scores = scorer.score(STATEMENTS, CONTEXTS)
    assert max(sizes) > room or layout == "equal"  # rows of one length may be single anyway
    assert torch.allclose(scores.value, expected, rtol=0, atol=CLOSE)


def test_out_of_memory_at_batch_one_is_a_failure(monkeypatch):
    scorer = scorer_of("qwen3")
    scorer.score(["x"], [("y",)])
    model = scorer.model[0]
    forward = model.forward

    def cramped(**inputs):
        if inputs["input_ids"].shape[1] > 60:
            raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")
        return forward(**inputs)

    monkeypatch.setattr(model, "forward", cramped)
    long = " ".join(["red soil and tall trees"] * 30)
    scores = scorer.score(["red soil", long], [("soil",), ("soil",)])
    assert scores.reason == (None, "out of memory")
    assert scores.value.isnan().tolist() == [False, True]
    monkeypatch.setattr(model, "forward", forward)
    assert scorer.score([long], [("soil",)]).reason == (None,)  # not remembered


def test_other_errors_are_not_hidden(monkeypatch):
    assert out_of_memory(MemoryError())
    assert not out_of_memory(RuntimeError("shape mismatch"))
    scorer = scorer_of("qwen3")

    def broken(**inputs):
        raise RuntimeError("shape mismatch")

    monkeypatch.setattr(scorer.model[0], "forward", broken)
    with pytest.raises(RuntimeError, match="shape mismatch"):
        scorer.score(["a"], [("b",)])


# the company it runs in


def test_equal_pairs_run_once_and_are_bit_equal(monkeypatch):
    model, tokenizer = tiny_chat_model("qwen3")
    scorer = CausalLMScorer((model, tokenizer), min_mass=0.0)
    first = scorer.score([POINTS[0], POINTS[1], POINTS[0]], [POINTS, POINTS, POINTS])
    assert first.value[0] == first.value[2]
    calls = watched(model, monkeypatch)
    again = scorer.score([POINTS[1], POINTS[0]], [POINTS, POINTS])
    assert not calls
    assert again.value.tolist() == first.value[:2].flip(0).tolist()


def test_new_weights_are_noticed():
    scorer = CausalLMScorer((tiny_model("qwen3"), tiny_tokenizer("qwen3")), min_mass=0.0)
    before = scorer.score(STATEMENTS, CONTEXTS).value
    with torch.no_grad():
        for parameter in scorer.model[0].parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)), alpha=0.3)
    after = scorer.score(STATEMENTS, CONTEXTS).value
    expected, _ = per_pair(*scorer.model, STATEMENTS, CONTEXTS)
    assert not torch.allclose(after, before, atol=CLOSE)
    assert torch.allclose(after, expected, rtol=0, atol=CLOSE)


def test_leaves_no_trace():
    model, tokenizer = tiny_model("qwen3", attention_dropout=0.5), tiny_tokenizer("qwen3")
    expected, _ = per_pair(model, tokenizer, STATEMENTS, CONTEXTS)
    model.train()
    model.model.layers[0].eval()
    flags = [module.training for module in model.modules()]
    torch.manual_seed(0), np.random.seed(0), random.seed(0)  # noqa: NPY002
    numbers = torch.rand(1), np.random.rand(), random.random()  # noqa: NPY002
    torch.manual_seed(0), np.random.seed(0), random.seed(0)  # noqa: NPY002
    weights = {name: weight.clone() for name, weight in model.state_dict().items()}
    with torch.enable_grad(), torch.autocast("cpu", torch.bfloat16):
        value = CausalLMScorer((model, tokenizer), min_mass=0.0).score(STATEMENTS, CONTEXTS).value
        assert torch.is_grad_enabled()
        assert torch.is_autocast_enabled("cpu")
    assert torch.allclose(value, expected, rtol=0, atol=CLOSE)  # in eval mode and float32 all the same
    assert (torch.rand(1), np.random.rand(), random.random()) == numbers  # noqa: NPY002
    assert [module.training for module in model.modules()] == flags
    assert all(torch.equal(weight, weights[name]) for name, weight in model.state_dict().items())
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())


def test_training_mode_is_restored_after_an_error(monkeypatch):
    scorer = CausalLMScorer((tiny_model("qwen3").train(), tiny_tokenizer("qwen3")), min_mass=0.0)

    def broken(**inputs):
        raise KeyError("broken")

    monkeypatch.setattr(scorer.model[0], "forward", broken)
    with pytest.raises(KeyError, match="broken"):
        scorer.score(["a"], [("b",)])
    assert scorer.model[0].training


def test_loads_from_a_folder_and_pickles_its_configuration(tmp_path):
    model, tokenizer = tiny_chat_model("qwen3")
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    scorer = CausalLMScorer(tmp_path, "argmax", max_batch_tokens=2000, min_mass=0.0, device="cpu")
    torch.manual_seed(0)
    number = torch.rand(1)
    torch.manual_seed(0)
    value = scorer.score(STATEMENTS, CONTEXTS).value
    assert torch.equal(torch.rand(1), number)
    assert torch.equal(value, scorer_of("qwen3", read="argmax").score(STATEMENTS, CONTEXTS).value)
    data = pickle.dumps(scorer)
    assert len(data) < 10_000
    copy = pickle.loads(data)
    assert copy._loaded is None
    assert (copy.read, copy.max_batch_tokens, copy.min_mass, copy.rubric) == ("argmax", 2000, 0.0, SHARED_EVIDENCE)
    assert torch.equal(copy.score(STATEMENTS, CONTEXTS).value, value)
    with pytest.raises(TypeError, match="CausalLMScorer to hold a model name or folder when pickled"):
        pickle.dumps(scorer_of("qwen3"))


def test_dtype(tmp_path):
    expected = scorer_of("qwen3").score(STATEMENTS, CONTEXTS).value
    tiny_model("qwen3").to(torch.bfloat16).save_pretrained(tmp_path)
    tiny_tokenizer("qwen3").save_pretrained(tmp_path)
    default = CausalLMScorer(tmp_path, min_mass=0.0, device="cpu")
    default.score(["a"], [("b",)])
    assert default._loaded[1].model.dtype == torch.float32
    half = CausalLMScorer(tmp_path, min_mass=0.0, device="cpu", dtype=torch.bfloat16)
    assert torch.allclose(half.score(STATEMENTS, CONTEXTS).value, expected, atol=0.05)
    assert half._loaded[1].model.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"read": "mean"}, ValueError, "`read` to be 'expectation' or 'argmax', but got 'mean'"),
        ({"max_batch_tokens": 0}, ValueError, "`max_batch_tokens` of at least 1, but got 0"),
        ({"min_mass": 1.5}, ValueError, r"`min_mass` within \[0, 1\], but got 1.5"),
        ({"min_mass": float("nan")}, ValueError, "`min_mass` within"),
        ({"rubric": "be nice"}, TypeError, "`rubric` to be a Rubric, but got str"),
        ({"model": 3}, TypeError, r"a pair \(model, tokenizer\), but got int"),
        ({"model": ("a", "b")}, TypeError, r"a pair \(model, tokenizer\), but got tuple"),
        ({"model": (torch.nn.Identity(), None), "device": "cpu"}, ValueError, "no `device` and no `dtype`"),
    ],
)
def test_bad_options(options, error, text):
    with pytest.raises(error, match=text):
        CausalLMScorer(**{"model": "some/model", **options})
