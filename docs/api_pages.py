"""What the pages of the API show and the source says elsewhere: an extension of griffe, which reads the source.

- A default that is a named constant is shown as its value: `32 * 2**20`, not `DEFAULT_MAX_EVENT_SIZE`.
- Where a call takes `**options: Unpack[ParserOptions]` or the like, each option is listed with its meaning, as the
  docstrings of `ChatCompletionParser` and `ConnectOptions` have it.
"""

from typing import Any

import griffe

PARSER = "chunkfold.parser.parser.ChatCompletionParser"
CONNECT_OPTIONS = "chunkfold.stream.connection.ConnectOptions"
OWN_HEADERS = (
    "status_code",
    "headers",
    "started",
)  # of the parser; a request has headers of its own


class ApiPages(griffe.Extension):
    """Changes signatures and docstrings once everything is read."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """The whole package is there: names can be followed."""
        for function in functions_in(pkg):
            for parameter in function.parameters:
                parameter.default = shown(parameter.default)
            list_options(function, pkg)


def functions_in(scope: griffe.Module | griffe.Class) -> list[griffe.Function]:
    """Every function and method below, without those that are only imported."""
    found: list[griffe.Function] = []
    for member in scope.members.values():
        if isinstance(member, griffe.Function):
            found.append(member)
        elif isinstance(member, griffe.Module | griffe.Class):
            found += functions_in(member)
    return found


def shown(default: Any) -> Any:
    """A default as a reader wants it: the value, if it is a constant of this package."""
    if not isinstance(default, griffe.ExprName):
        return default
    scope = default.parent
    if not isinstance(scope, griffe.Object):
        return default
    try:
        constant = scope.modules_collection[default.canonical_path]
    except KeyError:  # of another package
        return default
    return (
        constant.value
        if isinstance(constant, griffe.Attribute) and constant.value is not None
        else default
    )


def list_options(function: griffe.Function, package: griffe.Module) -> None:
    """Put each option below the parameter `options`, in the docstring of the call or of the class that is called."""
    kind = options_of(function)
    documented = function if function.docstring is not None else function.parent
    if kind is None or not isinstance(
        documented, griffe.Function | griffe.Class
    ):
        return
    section = parameters_of(documented)
    if section is not None:
        known = {parameter.name for parameter in section.value}
        section.value += [
            option
            for option in options_in(package, kind)
            if option.name not in known
        ]


def options_in(
    package: griffe.Module, kind: str
) -> list[griffe.DocstringParameter]:
    """The options of the parser, or those of `connect`."""
    listed: list[griffe.DocstringParameter] = list(
        parameters_of(package.modules_collection[PARSER]).value
    )
    if kind == "ParserOptions":
        return listed
    sections = package.modules_collection[CONNECT_OPTIONS].docstring.parse(
        "google"
    )
    own = next(
        section
        for section in sections
        if section.kind is griffe.DocstringSectionKind.attributes
    )
    return [
        *(option for option in listed if option.name not in OWN_HEADERS),
        *(
            griffe.DocstringParameter(
                name=one.name,
                description=one.description,
                annotation=one.annotation,
            )
            for one in own.value
        ),
    ]


def options_of(function: griffe.Function) -> str | None:
    """Which options a function takes as keywords, None if none of ours."""
    for parameter in function.parameters:
        if (
            parameter.kind is griffe.ParameterKind.var_keyword
            and "Options]" in str(parameter.annotation)
        ):
            return str(parameter.annotation).partition("[")[2].rstrip("]")
    return None


def parameters_of(documented: griffe.Object) -> Any:
    """The section of a docstring that lists parameters, None if it has none. What is changed in it is shown."""
    docstring = documented.docstring
    if docstring is None:
        return None
    docstring.parser = griffe.Parser.google
    return next(
        (
            one
            for one in docstring.parsed
            if one.kind is griffe.DocstringSectionKind.parameters
        ),
        None,
    )
