"""Row order: every row once an epoch, equal steps on all ranks, exact resume from any point."""

from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetero.errors import CheckpointError
from hetero.train.data.sampler import Sampler

shapes = st.tuples(
    st.integers(1, 40), st.integers(1, 5), st.integers(1, 4), st.booleans(), st.integers(0, 2**40)
)


def samplers(rows, batch, world, shuffle, seed):
    return [
        Sampler(rows, batch, rank=rank, world_size=world, shuffle=shuffle, seed=seed) for rank in range(world)
    ]


@settings(max_examples=100, deadline=None)
@given(shapes)
def test_every_row_once_and_ranks_in_step(shape):
    rows, batch = shape[:2]
    ranks = samplers(*shape)
    for epoch in range(2):
        batches = [list(sampler) for sampler in ranks]
        assert {len(b) for b in batches} == {len(ranks[0])}
        seen = [row for per_rank in batches for micro in per_rank for row in micro]
        assert sorted(seen) == list(range(rows))
        assert all(len(micro) <= batch for per_rank in batches for micro in per_rank)
        assert all(sampler.epoch == epoch + 1 for sampler in ranks)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 30), st.integers(1, 3), st.integers(1, 3))
def test_global_batches_do_not_depend_on_the_world(rows, batch, world):
    together = [list(s) for s in samplers(rows, batch, world, True, 3)]
    alone = list(Sampler(rows, batch * world, shuffle=True, seed=3))
    assert [list(chain(*micro)) for micro in zip(*together)] == alone


@settings(max_examples=80, deadline=None)
@given(shapes, st.data())
def test_resume_anywhere(shape, data):
    rank = data.draw(st.integers(0, shape[2] - 1))
    steps = data.draw(st.integers(0, 2 * len(samplers(*shape)[0]) + 1))
    whole, stopped, resumed = (samplers(*shape)[rank] for _ in range(3))

    def take(sampler, number):
        out = []
        while len(out) < number:
            for micro in sampler:
                out.append(micro)
                if len(out) == number:
                    break
        return out

    expected = take(whole, steps + 7)
    assert take(stopped, steps) == expected[:steps]
    resumed.load_state_dict(stopped.state_dict())
    assert take(resumed, 7) == expected[steps:]


def test_resume_with_another_world_size_loses_nothing():
    first = samplers(23, 2, 2, True, 5)
    seen = []
    for sampler in first:
        iterator = iter(sampler)
        seen += next(iterator) + next(iterator)
    state = first[0].state_dict()
    for sampler in samplers(23, 3, 3, True, 5):
        sampler.load_state_dict(state)
        seen += chain(*sampler)
    assert sorted(seen) == list(range(23))


def test_last_micro_batches_of_an_epoch():
    """8 rows, one at a time: with 3 micro-batches a step the windows are 3 + 3 + 2."""
    assert [len(m) for m in Sampler(8, 1, shuffle=False)] == [1] * 8
    assert [list(s) for s in samplers(5, 2, 2, False, 0)] == [[[0, 1], [4]], [[2, 3], []]]


def test_order_depends_on_seed_and_epoch_only():
    import torch

    sampler = Sampler(50, 5, seed=1)
    first = list(sampler)
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    assert list(Sampler(50, 5, seed=1)) == first != list(sampler) and list(Sampler(50, 5, seed=2)) != first
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("other", [{"rows": 9}, {"seed": 1}, {"shuffle": False}])
def test_state_of_another_run_is_refused(other):
    state = Sampler(8, 2).state_dict()
    with pytest.raises(CheckpointError, match=f"has {next(iter(other))} "):
        Sampler(**({"rows": 8, "batch_size": 2} | other)).load_state_dict(state)


def test_grouped_by_length_is_each_row_once_and_little_padding() -> None:
    lengths = [(7 * i) % 101 + 1 for i in range(3000)]
    sampler = Sampler(3000, 4, seed=1, lengths=lengths)
    batches = list(sampler)
    assert sorted(row for batch in batches for row in batch) == list(range(3000))
    assert sum(len(b) * max(lengths[r] for r in b) for b in batches) < 1.05 * sum(lengths)
    assert sampler.order() != Sampler(3000, 4, seed=1, lengths=lengths).order()  # another epoch
    halves = [list(Sampler(3000, 2, rank=r, world_size=2, seed=1, lengths=lengths)) for r in (0, 1)]
    assert [a + b for a, b in zip(*halves)] == batches
    resumed = Sampler(3000, 4, seed=1, lengths=lengths)
    resumed.load_state_dict({"epoch": 0, "consumed": 40, "rows": 3000, "shuffle": True, "seed": 1})
    assert next(iter(resumed)) == batches[10]
