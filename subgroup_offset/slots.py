"""How a prompt's rollouts are spread over its strategies. Pure: no import but the standard library."""

from __future__ import annotations


def slot_sizes(n: int, num_strategies: int, rollouts_per_strategy: int | None = None, step: int = 1) -> tuple[int, ...]:
    """How many of a prompt's n rollouts each of its slots gets.

    The paper has K slots of Z rollouts each, N = K * Z (Table 5). Where Z is not given, or a prompt has another number
    of rollouts than K * Z (verl lets a dataset set it), n is spread as evenly as it goes, the first slots getting one
    more: subgroups may have any sizes. A subgroup of one rollout has nothing to say, so that there are fewer slots
    than K where n is below 2 * K, but two at least, without which there is no offset.

    Args:
        n: rollouts of the prompt, 1 or more.
        num_strategies: K.
        rollouts_per_strategy: Z, or None.
        step: slots are filled by so many at a time: 2 in paired sampling, where K is even.

    Returns:
        (K',) sizes, each 1 or more, which add up to n; K' is at most K.

    Raises:
        ValueError: for n below 1.
    """
    if n < 1:
        raise ValueError(f"n={n} is no number of rollouts: set it to 1 or above.")
    if rollouts_per_strategy is not None and n == num_strategies * rollouts_per_strategy:
        return (rollouts_per_strategy,) * num_strategies
    slots = min(num_strategies, max(n // 2, 2))
    slots = min(max(slots - slots % step, step), n)
    return tuple(n // slots + (k < n % slots) for k in range(slots))
