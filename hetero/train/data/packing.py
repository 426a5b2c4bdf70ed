"""Best-fit-decreasing packing: short examples share a row, so that little of a batch is padding."""

from __future__ import annotations

from collections.abc import Sequence


def pack(lengths: Sequence[int], capacity: int) -> list[list[int]]:
    """Distribute items over as few rows of `capacity` as best-fit decreasing finds.

    Items are placed longest first (ties: in their order), each into the fullest row that still has room.
    The result depends on nothing but the arguments. Cost: O(n log n + n * capacity / 64).

    Args:
        lengths: length of each item, from 1 to `capacity` (longer examples are truncated before packing).
        capacity: tokens a row holds.

    Returns:
        Item indices of each row, ascending; rows are ordered by their first item.

    Raises:
        ValueError: a length outside 1..capacity.
    """
    rows: list[list[int]] = []
    with_room: dict[int, list[int]] = {}  # free tokens -> rows that have exactly so many
    rooms = 0  # bit r is set while with_room[r] is not empty: the best fit is the lowest set bit >= length
    for item in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        length = lengths[item]
        if not 1 <= length <= capacity:
            raise ValueError(f"item {item} has length {length}; packing takes 1 to {capacity}")
        fitting = rooms >> length
        if fitting:
            room = length + (fitting & -fitting).bit_length() - 1
            row = with_room[room].pop()
            if not with_room[room]:
                rooms &= ~(1 << room)
        else:
            room, row = capacity, len(rows)
            rows.append([])
        rows[row].append(item)
        left = room - length
        if left:
            with_room.setdefault(left, []).append(row)
            rooms |= 1 << left
    return sorted(sorted(row) for row in rows)
