"""Many small cases in one test: the same table as `pytest.mark.parametrize` takes, without what each test costs."""

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest


def each_case(
    names: str | tuple[str, ...], values: Iterable[Any], ids: Iterable[Any] | Callable[[Any], object] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run every case in one test, which fails with the errors of all that fail, each with a note that names its case.

    For tables of dozens of cases that take less than pytest needs to set one up. Not for cases that skip, have marks, or
    change what a fixture gave.
    """
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    cases = list(_named(arguments, values, ids))

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def test(**fixtures: Any) -> None:
            __tracebackhide__ = True
            errors: list[BaseException] = []
            for name, case in cases:
                try:
                    function(**fixtures, **dict(zip(arguments, case, strict=True)))
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - raised below
                    error.add_note(f"case: {name}")
                    errors.append(error)
            if len(errors) > 1:
                raise BaseExceptionGroup(f"{len(errors)} of {len(cases)} cases", errors)
            if errors:
                raise errors[0]

        test.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[each for name, each in signature.parameters.items() if name not in arguments]
        )
        return test

    return decorate


def _named(arguments: list[str], values: Iterable[Any], ids: Any) -> Iterator[tuple[str, tuple[Any, ...]]]:
    values = list(values)
    if callable(ids):
        given: Iterable[Any] = [
            ids(value) if len(arguments) == 1 else "-".join(map(str, map(ids, value))) for value in values
        ]
    else:
        given = ids or itertools.repeat(None, len(values))
    for value, given_id in zip(values, given, strict=True):
        if hasattr(value, "marks"):  # a pytest.param
            assert not value.marks, "each_case has no marks"
            case, name = tuple(value.values), value.id or given_id
        else:
            case, name = tuple(value) if len(arguments) > 1 else (value,), given_id
        yield str(name or repr(case)[:200]), case
