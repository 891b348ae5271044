"""Batches of any structure: the sums of a step are those of one example at a time, whatever holds the tensors."""

import dataclasses
import itertools
from collections import OrderedDict, UserDict, defaultdict, namedtuple
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

import rangebound as rb
from rangebound.learn.torch import Elementwise, Euclidean, FisherWatcher
from rangebound.learn.torch.batch_tree import emptied, put_together, taken_apart
from tests.learn.torch.models import NoNoise, data, linear, private

Refused = rb.errors.ArgumentError
COUNT = 9
Pair = namedtuple("Pair", ["left", "right"])


@dataclasses.dataclass(frozen=True)
class Sentence:
    words: torch.Tensor
    mask: torch.Tensor | None
    more: Any = None


class Reader(nn.Module):
    """Words and numbers with a mask, by name; several outputs, of which the loss may be one."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.numbers, self.head = nn.Embedding(7, 6), nn.Linear(3, 6), nn.Linear(6, 4)

    def forward(
        self, words: torch.Tensor, numbers: Any = None, mask: Any = None, labels: Any = None, *, shift: bool = False
    ) -> dict[str, Any]:
        inner = self.words(words) * (1.0 if mask is None else mask[:, :, None])
        whole = inner.sum(1) if numbers is None else inner.sum(1) + self.numbers(numbers)
        logits = self.head(whole.tanh() + shift)
        found = {"logits": logits, "classes": logits.argmax(1), "hidden": (inner, None), "cache": object()}
        return found if labels is None else {"loss": F.cross_entropy(logits, labels), **found}


def parts(count: int = COUNT) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    return {
        "words": torch.randint(0, 7, (count, 5), generator=generator),
        "numbers": torch.randn(count, 3, generator=generator),
        "mask": torch.randint(0, 2, (count, 5), generator=generator).float(),
        "labels": torch.randint(0, 4, (count,), generator=generator),
    }


class Items(torch.utils.data.Dataset[Any]):
    """Examples as dictionaries, which a collate function makes a batch of."""

    def __init__(self, count: int = COUNT) -> None:
        self.parts = parts(count)

    def __len__(self) -> int:
        return len(self.parts["words"])

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        return {name: each[i] for name, each in self.parts.items()}


def told(model: Any, b: Mapping[str, Any]) -> torch.Tensor:
    return model(**b)["loss"]  # type: ignore[no-any-return]


def of_pair(model: Any, b: Any) -> torch.Tensor:
    return F.cross_entropy(model(b[0][0], b[0][1])["logits"], b[1])


def of_sentence(model: Any, b: Sentence) -> torch.Tensor:
    numbers, labels = b.more
    return F.cross_entropy(model(b.words, numbers, b.mask)["logits"], labels)


def tree(p: dict[str, torch.Tensor]) -> dict[str, tuple[Any, Callable[[Any, Any], torch.Tensor]]]:
    words, numbers, mask, labels = p.values()
    return {
        "a dictionary": (dict(p), told),
        "an ordered one": (OrderedDict(p), told),
        "one with defaults": (defaultdict(int, p), told),
        "one of a library": (UserDict(p), told),
        "tuples in a list": ([(words, numbers), labels], of_pair),
        "a named tuple": (Pair((words, numbers), labels), lambda m, b: of_pair(m, (b.left, b.right))),
        "a dataclass": (Sentence(words, mask, (numbers, labels)), of_sentence),
        "without a mask": (Sentence(words, None, [numbers, labels]), of_sentence),
        "a truth value": ({**p, "shift": True}, told),
    }


CASES = [*tree(parts())]


def rows(batch: Any, i: int) -> Any:
    structure, leaves = taken_apart(batch, "batch")
    return put_together(structure, [each[i : i + 1] for each in leaves])


def expected(model: nn.Module, clip: Any, losses: Callable[[int], torch.Tensor]) -> torch.Tensor:
    """The sum of clipped gradients, one example at a time by autograd."""
    total: Any = 0.0
    for i in range(COUNT):
        slopes = torch.autograd.grad(losses(i), [*model.parameters()], allow_unused=True, materialize_grads=True)
        flat = torch.cat([each.flatten() for each in slopes]).double()
        if isinstance(clip, Elementwise):
            total = total + (flat / clip.quantum).round().clamp(-clip.levels, clip.levels) * clip.quantum
        else:
            total = total + flat * (clip.target / flat.norm()).clamp(max=1.0)
    return total  # type: ignore[no-any-return]


@pytest.mark.few(6)
@pytest.mark.parametrize("clip", [Elementwise(clip=0.05), Euclidean(clip=0.3)], ids=["elementwise", "Euclidean"])
@pytest.mark.parametrize("case", CASES)
def test_a_step_on_a_tree_is_that_of_its_examples(case: str, clip: Any) -> None:
    batch, loss = tree(parts())[case]
    model, seen = Reader(), NoNoise(seen=[])
    _, optimizer, loader = private(model, Items(), criterion=None, loss=loss, clipping=clip, noise=seen)
    wanted = expected(model, clip, lambda i: loss(model, rows(batch, i)))
    alone = torch.stack([loss(model, rows(batch, i)) for i in range(COUNT)]).detach()
    for _ in loader:
        torch.testing.assert_close(optimizer.backward(batch), alone)
        told_by = optimizer.explain()
        optimizer.step()
    torch.testing.assert_close(seen.seen[0], wanted, rtol=0.0, atol=COUNT * 1e-6)
    assert "words.weight: in the one pass, rule: embedding" in told_by
    other = expected(model, clip, lambda i: loss(model, rows(batch, COUNT - 1)))
    assert float((other - wanted).abs().max()) > 1e-2  # the control: another example


def test_a_batch_in_parts_and_in_chunks_has_the_same_sums() -> None:
    found = []
    for size, cuts in ((COUNT, (0, COUNT)), (2, (0, 4, COUNT))):
        torch.manual_seed(7)
        seen = NoNoise(seen=[])
        _, optimizer, loader = private(
            Reader(), Items(), criterion=None, loss=told, clipping=Elementwise(clip=0.05), noise=seen, chunk_size=size
        )
        for batch in loader:
            for a, b in itertools.pairwise(cuts):
                optimizer.backward({name: each[a:b] for name, each in batch.items()})
            optimizer.step()
        found.append(seen.seen[0])
    assert float((found[0] - found[1]).abs().max()) <= COUNT * Elementwise(clip=0.05).quantum


def test_an_empty_poisson_batch_is_an_empty_tree_of_the_same_shape() -> None:
    engine, optimizer, loader = private(Reader(), Items(), criterion=None, loss=told, rate=1e-12, expected_batch=1.0)
    for batch, _ in zip(loader, range(3), strict=False):
        assert {name: each.shape for name, each in batch.items()} == {
            name: (0, *each.shape[1:]) for name, each in parts().items()
        }
        assert optimizer.backward(batch).shape == (0,)
        optimizer.step()
    assert engine.steps == 3
    structure, leaves = taken_apart(
        emptied(Sentence(torch.ones(2, 3), None, ["name", torch.ones(2)])), "batch", lenient=True
    )
    assert [tuple(each.shape) for each in leaves] == [(0, 3), (0,)]
    assert structure == taken_apart(Sentence(torch.ones(4, 3), None, [None, torch.ones(4)]), "batch")[0]


def ordinary(net: Any, p: dict[str, torch.Tensor], way: str) -> torch.Tensor:
    given = {"mask": p["mask"], "numbers": p["numbers"]}
    if way == "its own loss":
        return net(p["words"], labels=p["labels"], **given)["loss"]  # type: ignore[no-any-return]
    output = net(p["words"], **given)
    if way == "one of several outputs":
        return F.cross_entropy(output["logits"], p["labels"])
    return net.criterion(output, {"labels": p["labels"]})  # type: ignore[no-any-return]


@pytest.mark.parametrize("way", ["its own loss", "one of several outputs", "the criterion of all"])
def test_the_ordinary_loop_takes_arguments_by_name_and_several_outputs(way: str) -> None:
    def criterion(output: Any, target: Any) -> torch.Tensor:
        return F.cross_entropy(output["logits"], target["labels"]) + output["hidden"][0].square().sum() * extra

    extra = 0.1 if way == "the criterion of all" else 0.0
    model, seen, clip, p = Reader(), NoNoise(seen=[]), Euclidean(clip=0.3), parts()
    engine, optimizer, loader = private(model, Items(), criterion=criterion, clipping=clip, noise=seen)
    net = engine.attach(model)

    def alone(i: int) -> torch.Tensor:
        one = rows(p, i)
        return criterion(model(one["words"], one["numbers"], one["mask"]), one)

    wanted, mean = expected(model, clip, alone), sum(float(alone(i).detach()) for i in range(COUNT)) / COUNT
    for _ in loader:
        loss = ordinary(net, p, way)
        assert float(loss.detach()) == pytest.approx(mean, rel=1e-5)
        loss.backward()
        optimizer.step()
    torch.testing.assert_close(seen.seen[0], wanted, rtol=0.0, atol=COUNT * 1e-6)
    assert "rule: embedding" in engine.explain()
    assert net.eval()(p["words"])["cache"] is not None  # in evaluation mode it is the module itself


class Alone(nn.Module):
    """One output, in a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 4)

    def forward(self, numbers: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"logits": self.head(numbers)}


def test_the_criterion_gets_a_dictionary_of_one_output_as_it_is() -> None:
    def criterion(output: Any, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(output["logits"], target)

    model, seen, clip, p = Alone(), NoNoise(seen=[]), Euclidean(clip=0.3), parts()
    engine, optimizer, loader = private(model, Items(), criterion=criterion, clipping=clip, noise=seen)
    net = engine.attach(model)
    wanted = expected(model, clip, lambda i: criterion(model(p["numbers"][i : i + 1]), p["labels"][i : i + 1]))
    for _ in loader:
        with pytest.raises(Refused, match="with all its parts"):
            net.criterion(net(p["numbers"])["logits"], p["labels"])
        net.criterion(net(p["numbers"]), p["labels"]).backward()
        optimizer.step()
    torch.testing.assert_close(seen.seen[0], wanted, rtol=0.0, atol=COUNT * 1e-6)


def test_a_loss_of_the_module_is_not_changed_and_outputs_come_back_whole() -> None:
    engine, optimizer, loader = private(Reader(), Items(), criterion=lambda o, y: o["logits"].sum())
    net = engine.attach(optimizer.module)
    for _ in loader:
        p = parts()
        with pytest.raises(Refused, match="multiplied, divided"):
            (2.0 * net(p["words"], labels=p["labels"])["loss"]).backward()
        output = net(p["words"])
        assert (output["cache"], output["hidden"][1]) == (None, None)
        with pytest.raises(Refused, match="with all its parts"):
            net.criterion({"logits": output["logits"]}, p["labels"])
        with pytest.raises(Refused, match="with all its parts"):
            net.criterion({**output, "hidden": (output["hidden"][0].float() * 1.0, None)}, p["labels"])
        net.criterion(output, p["labels"]).backward()
        with pytest.raises(Refused, match="second one"):
            net.criterion(output, p["labels"]).backward()
        optimizer.step()
    assert engine.steps == 1


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        ({"names": ["a", "b"]}, r"batch\['names'\]\[0\]: is of the type str"),
        ({"words": torch.zeros(2), "length": 3}, r"batch\['length'\]: is of the type int"),
        (Sentence(torch.zeros(2), None, object()), r"batch\.more: is of the type object"),
        ({"a": torch.zeros(97, 2), "b": torch.zeros(96)}, "as many in all of them"),
        ({"a": torch.tensor(1.0)}, "first axis"),
        ({}, "first axis"),
        (None, "first axis"),
    ],
)
def test_what_has_no_axis_for_examples_is_refused(batch: Any, words: str) -> None:
    """It would reach all examples; and no message says how many there are."""
    _, optimizer, loader = private(Reader(), Items(), criterion=None, loss=told)
    for _ in loader:
        with pytest.raises(Refused, match=words) as caught:
            optimizer.backward(batch)
        assert "96" not in str(caught.value)
        optimizer.backward(parts())
        optimizer.step()


def test_one_of_criterion_and_loss_is_given() -> None:
    x, y = data((6,))
    for wrong in ({"criterion": None}, {"loss": told}, {"criterion": None, "loss": 3}):
        with pytest.raises(Refused, match="loss"):
            private(linear(), x, y, **wrong)

    def of_both(model: Any, b: Any) -> torch.Tensor:
        return F.cross_entropy(model(b[0]), b[1])

    engine, optimizer, loader = private(linear(), x, y, criterion=None, loss=of_both)
    for batch in loader:
        with pytest.raises(Refused, match="must be left out"):
            optimizer.backward(*batch)
        with pytest.raises(Refused, match=r"optimizer\.backward\(batch\)"):
            engine.attach(optimizer.module)(batch[0])
        optimizer.backward(batch)
        optimizer.step()
    _, optimizer, loader = private(linear(), x, y)
    for batch in loader:
        with pytest.raises(Refused, match=r"y: missing.*backward\(x, y\)"):
            optimizer.backward(batch)


def test_an_account_of_single_examples_needs_pairs_of_tensors() -> None:
    _, optimizer, loader = private(Reader(), Items(), criterion=None, loss=told, watchers=(FisherWatcher(),))
    for batch in loader:
        with pytest.raises(Refused, match="examples of one tensor"):
            optimizer.backward(batch)


def test_a_loader_of_dictionaries_trains_and_the_noise_is_charged() -> None:
    engine, optimizer, loader = private(Reader(), DataLoader(Items(), batch_size=3), criterion=None, loss=told)
    for batch in loader:
        optimizer.backward(batch)
        optimizer.step()
    assert engine.steps == len(loader) == 3


def test_a_batch_without_an_example_shows_nothing_of_one() -> None:
    batch = {"x": torch.ones(1, 3), "longest": torch.tensor(7), "names": ["Ann"]}
    found = emptied(batch)
    assert found["x"].shape == (0, 3)
    assert (int(found["longest"]), found["names"]) == (0, [None])
    assert int(batch["longest"]) == 7  # control: it had one
