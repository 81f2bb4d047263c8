"""Many small cases in one test: the same table as `pytest.mark.parametrize` takes, without what each test costs."""

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import pytest


def each_case(
    names: str | tuple[str, ...], values: Iterable[Any], ids: Iterable[Any] | Callable[[Any], object] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Run every case in one test, which fails with the errors of all that fail, each with a note that names its case.

    For tables of dozens of cases that take less than pytest needs to set one up. Not for cases that skip, have marks,
    or change what a fixture gave.
    """
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    cases = list(_named(arguments, values, ids))
    assert cases, "each_case has no cases"

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def sync_test(**fixtures: Any) -> None:
            __tracebackhide__ = True
            with _Errors(len(cases)) as errors:
                for name, case in cases:
                    with errors.of(name):
                        function(**fixtures, **dict(zip(arguments, case, strict=True)))

        @functools.wraps(function)
        async def async_test(**fixtures: Any) -> None:
            __tracebackhide__ = True
            with _Errors(len(cases)) as errors:
                for name, case in cases:
                    with errors.of(name):
                        await function(**fixtures, **dict(zip(arguments, case, strict=True)))

        test = async_test if inspect.iscoroutinefunction(function) else sync_test
        test.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[each for name, each in signature.parameters.items() if name not in arguments]
        )
        return test

    return decorate


class _Errors:
    """Those of some cases, raised on leaving."""

    def __init__(self, cases: int) -> None:
        self._cases = cases
        self._errors: list[BaseException] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        __tracebackhide__ = True
        if len(self._errors) > 1:
            raise BaseExceptionGroup(f"{len(self._errors)} of {self._cases} cases", self._errors)
        if self._errors:
            raise self._errors[0]

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        try:
            yield
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - raised on leaving
            error.add_note(f"case: {name}")
            self._errors.append(error)


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
