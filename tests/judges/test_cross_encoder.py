import pickle
import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers

from judges.scorers import CrossEncoderScorer
from tests.judges.models import POINTS, tiny_tokenizer

NLI = {0: "contradiction", 1: "ENTAILMENT", 2: "neutral"}
STATEMENTS = [*POINTS[:4], "Rivers."]
CONTEXTS = [POINTS[:5], POINTS[2:], POINTS[:1], POINTS, ("A bridge over a river.", "", "Red soil.")]


def tiny_classifier(kind="bert", labels=1, **options):
    """Random weights, large ones, so that a wrong mask or label moves the answer."""
    size = {
        "vocab_size": 1000, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "max_position_embeddings": 128, "initializer_range": 0.4, "pad_token_id": 0,
    } | options  # fmt: skip
    if kind == "qwen3":
        size |= {"num_key_value_heads": 2, "head_dim": 8}
    if isinstance(labels, dict):
        size["id2label"] = labels
    else:
        size["num_labels"] = labels
    config_class, model_class = {
        "bert": (transformers.BertConfig, transformers.BertForSequenceClassification),
        "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForSequenceClassification),
    }[kind]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return model_class(config_class(**size)).eval(), tiny_tokenizer("plain")


def per_pair(model, tokenizer, statements, contexts, label):
    """The best point and its probability, one forward pass for each."""
    found = []
    for statement, context in zip(statements, contexts, strict=True):
        chances = {}
        for index, point in enumerate(context):
            if point:
                with torch.no_grad():
                    logits = model(**tokenizer(point, statement, return_tensors="pt")).logits[0]
                chances[index] = float(logits.sigmoid()[0] if label is None else logits.softmax(-1)[label])
        best = max(chances, key=chances.get)
        found.append((chances[best], best))
    return found


@pytest.mark.parametrize(
    ("kind", "labels", "label"),
    [
        ("bert", 1, None),
        ("bert", NLI, 1),
        ("bert", {0: "entailment", 1: "not_entailment"}, 0),
        ("qwen3", 1, None),
        ("qwen3", NLI, 1),
    ],
)
def test_best_point_as_of_one_forward_per_pair(kind, labels, label):
    model, tokenizer = tiny_classifier(kind, labels)
    expected = per_pair(model, tokenizer, STATEMENTS, CONTEXTS, label)
    scores = CrossEncoderScorer((model, tokenizer)).score(STATEMENTS, CONTEXTS)
    assert scores.value.tolist() == pytest.approx([value for value, _ in expected], abs=1e-5)
    assert scores.match == tuple(index for _, index in expected)
    assert len(set(scores.match)) > 1
    assert scores.value.std() > 1e-3
    assert scores.reliability.tolist() == [1] * 5


def test_small_batches_change_nothing():
    live = tiny_classifier()
    value = CrossEncoderScorer(live).score(STATEMENTS, CONTEXTS).value
    small = CrossEncoderScorer(live, max_batch_tokens=100).score(STATEMENTS, CONTEXTS).value
    assert torch.allclose(value, small, atol=1e-6)


def test_a_decoder_without_a_padding_token():
    model, tokenizer = tiny_classifier("qwen3", pad_token_id=None)
    expected = per_pair(model, tokenizer, STATEMENTS, CONTEXTS, None)
    value = CrossEncoderScorer((model, tokenizer)).score(STATEMENTS, CONTEXTS).value
    assert value.tolist() == pytest.approx([value for value, _ in expected], abs=1e-5)


def test_joined_context():
    model, tokenizer = tiny_classifier()
    scores = CrossEncoderScorer((model, tokenizer), join=True).score(["Rivers."], [("Red soil", "A bridge.", "")])
    expected = per_pair(model, tokenizer, ["Rivers."], [("Red soil. A bridge.",)], None)
    assert scores.value.item() == pytest.approx(expected[0][0], abs=1e-6)
    assert scores.match == (None,)


def test_failures():
    scorer = CrossEncoderScorer(tiny_classifier())
    long = " ".join(POINTS * 3)
    scores = scorer.score(["", "a", long, "a"], [("b",), (), ("b",), ("b", long)])
    assert scores.reason == ("empty statement", "empty context", "prompt too long", "prompt too long")
    assert scores.value.isnan().all()
    assert scores.match == (None,) * 4


def test_out_of_memory_halves_the_batch(monkeypatch):
    model, tokenizer = tiny_classifier()
    expected = CrossEncoderScorer((model, tokenizer)).score(STATEMENTS, CONTEXTS)
    forward, room, rows = model.forward, 2, []

    def cramped(**inputs):
        rows.append(len(inputs["input_ids"]))
        if rows[-1] > room:
            raise torch.cuda.OutOfMemoryError("simulated")
        return forward(**inputs)

    monkeypatch.setattr(model, "forward", cramped)
    scores = CrossEncoderScorer((model, tokenizer)).score(STATEMENTS, CONTEXTS)
    assert max(rows) > room
    assert torch.allclose(scores.value, expected.value, atol=1e-6)
    room = 0
    scores = CrossEncoderScorer((model, tokenizer)).score(STATEMENTS, CONTEXTS)
    assert set(scores.reason) == {"out of memory"}

    def broken(**inputs):
        raise RuntimeError("shape mismatch")

    monkeypatch.setattr(model, "forward", broken)
    with pytest.raises(RuntimeError, match="shape mismatch"):
        CrossEncoderScorer((model, tokenizer)).score(["a"], [("b",)])


def test_control_tokens_are_inert(monkeypatch):
    model, tokenizer = tiny_classifier()
    seen, forward = [], model.forward

    def watch(**inputs):
        seen.extend(inputs["input_ids"].flatten().tolist())
        return forward(**inputs)

    monkeypatch.setattr(model, "forward", watch)
    CrossEncoderScorer((model, tokenizer)).score(["soil </s> 9 <s>"], [("red <s></s>",)])
    assert not set(tokenizer.all_special_ids) & set(seen)


def test_equal_pairs_run_once(monkeypatch):
    model, tokenizer = tiny_classifier()
    scorer = CrossEncoderScorer((model, tokenizer))
    first = scorer.score(STATEMENTS, CONTEXTS).value
    monkeypatch.setattr(model, "forward", None)
    assert torch.equal(scorer.score(STATEMENTS[::-1], CONTEXTS[::-1]).value, first.flip(0))


def test_leaves_no_trace():
    model, tokenizer = tiny_classifier(hidden_dropout_prob=0.5)
    expected = CrossEncoderScorer((model, tokenizer)).score(STATEMENTS, CONTEXTS).value
    model.train()
    model.bert.pooler.eval()
    flags = [module.training for module in model.modules()]
    torch.manual_seed(0), np.random.seed(0), random.seed(0)  # noqa: NPY002
    numbers = torch.rand(1), np.random.rand(), random.random()  # noqa: NPY002
    torch.manual_seed(0), np.random.seed(0), random.seed(0)  # noqa: NPY002
    side = tokenizer.padding_side
    with torch.enable_grad(), torch.autocast("cpu", torch.bfloat16):
        value = CrossEncoderScorer((model, tokenizer)).score(STATEMENTS, CONTEXTS).value
        assert torch.is_grad_enabled()
    assert torch.allclose(value, expected, atol=1e-6)
    assert (torch.rand(1), np.random.rand(), random.random()) == numbers  # noqa: NPY002
    assert [module.training for module in model.modules()] == flags
    assert tokenizer.padding_side == side


def test_a_cross_encoder_of_sentence_transformers_and_its_folder(tmp_path):
    from sentence_transformers import CrossEncoder

    model, tokenizer = tiny_classifier()
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    expected = CrossEncoderScorer((model, tokenizer)).score(STATEMENTS, CONTEXTS)
    live = CrossEncoder(str(tmp_path), device="cpu")
    assert CrossEncoderScorer(live).score(STATEMENTS, CONTEXTS).match == expected.match
    torch.manual_seed(0)
    number = torch.rand(1)
    torch.manual_seed(0)
    named = CrossEncoderScorer(tmp_path, device="cpu")
    assert torch.allclose(named.score(STATEMENTS, CONTEXTS).value, expected.value, atol=1e-6)
    assert torch.equal(torch.rand(1), number)
    copy = pickle.loads(pickle.dumps(named))
    assert copy._loaded is None
    assert torch.equal(copy.score(STATEMENTS, CONTEXTS).value, named.score(STATEMENTS, CONTEXTS).value)
    with pytest.raises(TypeError, match="CrossEncoderScorer to hold a model name or folder when pickled"):
        pickle.dumps(CrossEncoderScorer(live))


def test_labels_that_do_not_say_entailment():
    for labels in ({0: "LABEL_0", 1: "LABEL_1"}, {0: "entailment", 1: "entails", 2: "neutral"}):
        with pytest.raises(ValueError, match="whose name in `id2label` begins with 'entail', but got"):
            CrossEncoderScorer(tiny_classifier(labels=labels)).score(["a"], [("b",)])


def test_bad_options():
    live = tiny_classifier()
    for model in (3, ("a", "b"), SimpleNamespace(model=None), (live[0],)):
        with pytest.raises(TypeError, match="a name, a folder, a CrossEncoder or a pair"):
            CrossEncoderScorer(model)
    with pytest.raises(ValueError, match="no `device` and no `dtype` with a live model"):
        CrossEncoderScorer(live, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match="`max_batch_tokens` of at least 1"):
        CrossEncoderScorer("some/model", max_batch_tokens=0)
