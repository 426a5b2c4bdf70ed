from hetero.train.data.sampler import Sampler
from hetero.train.source import Windows


def _windows(rows: int = 10, size: int = 2, accumulation: int = 2, seed: int = 3) -> Windows:
    return Windows([{"row": i} for i in range(rows)], Sampler(rows, size, seed=seed), accumulation)


def _rows(window: list[list[dict]]) -> list[list[int]]:
    return [[example["row"] for example in batch] for batch in window]


def test_an_epoch_ends_its_last_window() -> None:
    source = _windows()
    sizes, epochs = [], []
    for _ in range(7):
        sizes.append(len(source.next_window()))
        epochs.append(source.epoch)
    assert sizes == [2, 2, 1, 2, 2, 1, 2]
    assert epochs == [0.4, 0.8, 1.0, 1.4, 1.8, 2.0, 2.4]
    assert source.steps_per_epoch == 3


def test_each_epoch_visits_every_row_once_in_another_order() -> None:
    source = _windows()
    first, second = ([r for _ in range(3) for b in _rows(source.next_window()) for r in b] for _ in range(2))
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second


def test_state_at_any_step_gives_the_same_windows_again() -> None:
    for rows, accumulation in ((10, 2), (8, 2), (3, 4)):  # partial last window, exact epochs, one window
        for stop in range(1, 8):
            source = _windows(rows, accumulation=accumulation)
            for _ in range(stop):
                source.next_window()
            other = _windows(rows, accumulation=accumulation)
            other.load_state_dict(source.state_dict())
            assert other.epoch == source.epoch
            for _ in range(6):
                assert _rows(source.next_window()) == _rows(other.next_window())
