"""The pytest plugin, as other people's tests use it: each runs a small test suite of its own, in a folder."""

import re

import pytest
from own_process import loaded_by

from chunkfold.testing import DIALECTS, FakeProvider, ReceivedRequest, StreamBuilder, error_answer
from pytest_chunkfold import pytest_assertrepr_compare

pytest_plugins = "pytester"

HELLO = StreamBuilder().text("Hel", "lo").finish().done()


@pytest.fixture(name="run")
def run_of_pytest(pytester: pytest.Pytester) -> pytest.Pytester:
    others = " ".join(f"-p no:{name}" for name in ("anyio", "hypothesispytest", "pytest_cov", "respx"))
    pytester.makeini(f"[pytest]\nfilterwarnings = error\naddopts = {others}\n")
    return pytester


# Fixtures


def test_a_provider(run: pytest.Pytester) -> None:
    run.makepyfile("""
        import httpx
        import pytest
        from chunkfold.testing import StreamBuilder

        seen = []

        def test_it_runs_and_is_new(chunkfold_provider):
            seen.append(chunkfold_provider.base_url)
            chunkfold_provider.add(StreamBuilder().text("Hi").finish().done())
            assert "Hi" in httpx.post(chunkfold_provider.url, json={"stream": True}).text
            chunkfold_provider.assert_requested(json={"stream": True})
            chunkfold_provider.assert_script_used()

        def test_another_one(chunkfold_provider):
            assert chunkfold_provider.requests == []
            assert httpx.post(chunkfold_provider.url, json={}).status_code == 200

        def test_the_first_one_has_stopped():
            with pytest.raises(httpx.ConnectError):
                httpx.get(seen[0])
    """)
    run.runpytest().assert_outcomes(passed=3)


def test_a_stream(run: pytest.Pytester) -> None:
    """The sync and the async one, this on asyncio and on trio."""
    run.makepyfile("""
        import asyncio
        import gc

        import pytest
        import trio
        from chunkfold import StreamInterruptedError
        from chunkfold.testing import Answer, ManualClock, StreamBuilder, stalled
        from fronts import Sync

        HELLO = StreamBuilder().text("Hel", "lo").finish().done()
        opened = []

        @pytest.fixture(params=["sync", "asyncio", "trio"])
        def stream_of(request, chunkfold_stream, chunkfold_async_stream):
            if request.param == "sync":
                return lambda *args, **options: Sync.of(chunkfold_stream(*args, **options))
            return chunkfold_async_stream

        @pytest.fixture
        def run(request, stream_of):
            return trio.run if "trio" in request.node.name else lambda function: asyncio.run(function())

        @pytest.mark.parametrize("answer", [HELLO, HELLO.body, HELLO.answer()])
        def test_of_any_answer(stream_of, answer, run):
            async def text():
                async with stream_of(answer) as stream:
                    return (await stream.read()).text

            assert run(text) == "Hello"

        def test_with_a_clock_and_patience(stream_of, run):
            clock = ManualClock()

            async def read():
                stream = stream_of(HELLO.answer(first=2.0), clock=clock, strict=True)
                opened.append(stream)
                await anext(aiter(stream))
                assert (clock(), stream.timing.first_chunk) == (2.0, 2.0)
                stalling = stream_of(Answer(stalled(HELLO, 1, 9.0)), clock=clock, read_timeout=5.0)
                with pytest.raises(StreamInterruptedError):
                    await stalling.read()

            run(read)
            assert clock() == 7.0

        def test_one_that_is_left_open_says_nothing(stream_of, run):
            async def begin():
                await anext(aiter(stream_of(HELLO)))

            run(begin)
            gc.collect()

        def test_made_outside_of_any_event_loop(chunkfold_async_stream):
            stream = chunkfold_async_stream(HELLO)
            assert asyncio.run(stream.read()).text == "Hello"

        def test_those_before_hold_nothing():
            assert [stream.response.is_closed for stream in opened] == [True] * 3
            assert opened[0].end == "closed"
            opened.clear()
            gc.collect()
    """)
    run.runpytest().assert_outcomes(passed=17)


RECORDED = """
    import httpx
    import pytest

    @pytest.mark.parametrize("text", ["a/b", "c"])
    def test_it(chunkfold_recording, text):
        provider = chunkfold_recording("{url}")
        assert httpx.post(provider.url, json={{}}).json()["choices"]

    def test_named(chunkfold_recording):
        provider = chunkfold_recording("{url}", name="greeting", speed=0.0)
        assert httpx.post(provider.url, json={{}}).json()["choices"]
"""


def test_a_recording_is_made_once_and_replayed(run: pytest.Pytester) -> None:
    with FakeProvider() as upstream:
        path = run.makepyfile(RECORDED.format(url=upstream.base_url))
        run.runpytest("--chunkfold-record=new").assert_outcomes(passed=3)
        run.runpytest("--chunkfold-record", "new").assert_outcomes(passed=3)
        assert len(upstream.requests) == 3
    run.runpytest().assert_outcomes(passed=3)
    run.runpytest("--chunkfold-record=none").assert_outcomes(passed=3)
    folder = path.parent / "recordings" / path.stem
    made = sorted(each.relative_to(folder).as_posix() for each in folder.rglob("*.jsonl"))
    assert [re.sub(r"a-b-[0-9a-f]{8}/", "a-b-HASH/", each) for each in made] == [
        "greeting/1.jsonl",
        "test_it-a-b-HASH/1.jsonl",
        "test_it-c/1.jsonl",
    ]


ALIKE = """
    import httpx
    import pytest

    def said_by(provider, text):
        return httpx.post(provider.url, json={{"stream": True, "text": text}}).text

    class TestOne:
        def test_greeting(self, chunkfold_recording):
            assert "one" in said_by(chunkfold_recording("{url}"), "one")

    class TestTwo:
        def test_greeting(self, chunkfold_recording):
            assert "two" in said_by(chunkfold_recording("{url}"), "two")

        class TestInside:
            def test_greeting(self, chunkfold_recording):
                assert "inside" in said_by(chunkfold_recording("{url}"), "inside")

    def test_greeting(chunkfold_recording):
        assert "alone" in said_by(chunkfold_recording("{url}"), "alone")

    @pytest.mark.parametrize("text", ["a/b", "a:b", "a-b", "a::b", "a-b-", "x" * 300, "x" * 299 + "y", ".."])
    def test_p(chunkfold_recording, text):
        assert text in said_by(chunkfold_recording("{url}"), text)
"""


@pytest.mark.slow
def test_no_two_tests_share_a_recording(run: pytest.Pytester) -> None:
    def echo(request: ReceivedRequest) -> StreamBuilder:
        return StreamBuilder().text(request.json["text"]).finish().done()

    with FakeProvider(*[echo] * 12) as upstream:
        path = run.makepyfile(ALIKE.format(url=upstream.base_url))
        run.runpytest("--chunkfold-record=new").assert_outcomes(passed=12)
        upstream.assert_script_used()
    run.runpytest().assert_outcomes(passed=12)
    folder = path.parent / "recordings" / path.stem
    made = {each.relative_to(folder).as_posix() for each in folder.rglob("*.jsonl")}
    assert len(made) == 12
    assert {f"{each}test_greeting/1.jsonl" for each in ("", "TestOne/", "TestTwo/", "TestTwo/TestInside/")} < made
    assert max(len(part) for each in made for part in each.split("/")) < 120


def test_what_a_fixture_raises_fails_the_test(run: pytest.Pytester) -> None:
    with FakeProvider(error_answer(401, "Wrong key.")) as upstream:
        run.makepyfile(f"""
            import httpx

            def test_an_answer(chunkfold_provider):
                def answer(request):
                    assert request.json["model"] == "right"
                chunkfold_provider.add(answer)
                httpx.post(chunkfold_provider.url, json={{"model": "wrong"}})

            def test_a_key_that_is_refused(chunkfold_recording):
                provider = chunkfold_recording("{upstream.base_url}")
                assert httpx.post(provider.url, json={{}}).status_code == 401

            def test_a_wrong_upstream(chunkfold_recording):
                chunkfold_recording("nowhere")
        """)
        result = run.runpytest("--chunkfold-record=new")
    result.assert_outcomes(passed=2, errors=2, failed=1)
    result.stdout.fnmatch_lines_random([
        "*AssertionError*wrong*right*",
        "*PermissionError: the provider refused the key (401): nothing was recorded",
        "*ValueError: upstream: expected a base URL with http or https, received 'nowhere'",
    ])  # fmt: skip


def test_a_recording_that_is_missing_says_how_to_make_it(run: pytest.Pytester) -> None:
    run.makepyfile(RECORDED.format(url="http://127.0.0.1:9/v1"))
    result = run.runpytest("-k", "named")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*no recording *greeting*1.jsonl: to make it, *pytest --chunkfold-record=new*"])


def test_another_word_for_recording_is_bad_use(run: pytest.Pytester) -> None:
    result = run.runpytest("--chunkfold-record=all")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--chunkfold-record*invalid choice: 'all'*"])


def test_help_tells_of_them(run: pytest.Pytester) -> None:
    run.runpytest("--help").stdout.fnmatch_lines(["chunkfold:", "*--chunkfold-record*none*new*"])
    fixtures = run.runpytest("--fixtures").stdout.str()
    for name in ("dialect", "provider", "stream", "async_stream", "recording"):
        assert re.search(rf"^chunkfold_{name} -- .*\n    \w+", fixtures, re.MULTILINE)


# Dialects


def test_a_test_runs_in_each_dialect(run: pytest.Pytester) -> None:
    run.makepyfile("""
        import pytest
        from chunkfold.testing import StreamBuilder

        def test_it(chunkfold_dialect, chunkfold_stream):
            stream = StreamBuilder(chunkfold_dialect).text("Hi").finish().done()
            assert chunkfold_stream(stream).read().text == "Hi"

        @pytest.fixture
        def builder(chunkfold_dialect):
            return StreamBuilder(chunkfold_dialect)

        def test_through_a_fixture(builder):
            assert builder.dialect
    """)
    result = run.runpytest("-v")
    result.assert_outcomes(passed=2 * len(DIALECTS))
    for dialect in DIALECTS:
        result.stdout.fnmatch_lines([f"*::test_it[[]{dialect}[]] PASSED*"])


def test_the_tests_own_parameters_win(run: pytest.Pytester) -> None:
    run.makepyfile("""
        import pytest

        @pytest.mark.parametrize("chunkfold_dialect", ["stepfun", "xai"])
        def test_it(chunkfold_dialect):
            assert chunkfold_dialect in ("stepfun", "xai")

        @pytest.mark.parametrize("more, chunkfold_dialect", [(1, "stepfun")])
        def test_in_one_string(chunkfold_dialect, more):
            assert chunkfold_dialect == "stepfun"

        @pytest.mark.parametrize(("chunkfold_dialect", "more"), [("stepfun", 1)])
        def test_in_a_tuple(chunkfold_dialect, more):
            assert chunkfold_dialect == "stepfun"

        @pytest.mark.parametrize(argnames="chunkfold_dialect", argvalues=["stepfun"])
        def test_by_name(chunkfold_dialect):
            assert chunkfold_dialect == "stepfun"

        @pytest.mark.parametrize("chunkfold_dialect_of_mine", [1, 2])  # which multiplies
        def test_of_another_name(chunkfold_dialect, chunkfold_dialect_of_mine):
            pass

        @pytest.mark.parametrize("chunkfold_dialect", ["stepfun"])
        class TestAll:
            def test_of_a_class(self, chunkfold_dialect):
                assert chunkfold_dialect == "stepfun"

        class TestFixture:
            @pytest.fixture(params=["stepfun", "xai"])
            def chunkfold_dialect(self, request):
                return request.param

            def test_it(self, chunkfold_dialect):
                assert chunkfold_dialect in ("stepfun", "xai")
    """)
    run.runpytest().assert_outcomes(passed=8 + 2 * len(DIALECTS))


# Comparisons


def test_bodies_that_differ_are_shown_event_by_event(run: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CI", "BUILD_NUMBER"):  # where pytest shortens nothing
        monkeypatch.delenv(name, raising=False)
    run.makepyfile("""
        from chunkfold.testing import StreamBuilder

        def test_it():
            one = StreamBuilder().text(*"abcdefgh").finish().done()
            other = StreamBuilder().text(*"abcdXfgh").finish().done()
            assert one.body == other.body

        def test_builders():
            assert StreamBuilder().text("a") == StreamBuilder("stepfun").text("a")
    """)
    result = run.runpytest()
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines([
        "E*two bodies of streams differ from byte * on",
        'E*left, event 6: *"content":"e"*',
        'E*right, event 6: *"content":"X"*',
        "E*Full output truncated*",
        "E*two bodies of streams differ from byte * on",
        'E*left, event 1: *"role":"assistant"*',
        'E*right, event 1: *"role":""*',
    ])  # fmt: skip
    run.runpytest("-vv", "-k", "test_it").stdout.fnmatch_lines([
        'E*right, event 6: *"content":"X"*',
        "E*left, * bytes:",
        "E* ... 3 before",
        'E* > event 6 at byte *"content":"e"* <-- here',
        "E* ... 3 after",
        "E*right, * bytes:",
        "E* ... 3 before",
        'E* > event 6 at byte *"content":"X"* <-- here',
    ])  # fmt: skip


FOLD = """
def fold(body):
    text = ""
    for line in body.decode().split("\\n"):
        if line.startswith("data: {"):
            text += json.loads(line[6:])["choices"][0]["delta"].get("content") or ""
    return {"text": text}
"""
ASSERTIONS = """
    import json
    import httpx
    from mine import fold, fold_async
    from chunkfold.testing import FakeProvider, StreamBuilder, assert_folds_to, assert_same_however_cut

    SAID = StreamBuilder("azure").text("Hi").finish().done()

    def test_folds():
        assert_folds_to(SAID, fold=fold)

    def test_folds_async():
        assert_folds_to(SAID, fold=fold_async)

    def test_text():
        assert_folds_to(SAID, "Ho", fold=lambda body: "Hi")

    def test_cuts():
        assert_same_however_cut(SAID.in_dialect("openai"), fold_reads=lambda reads: [fold(read) for read in reads][-1])

    def test_cuts_raise():
        assert_same_however_cut(SAID, fold_reads=lambda reads: fold(reads[0]))

    def test_requests():
        with FakeProvider(SAID) as provider:
            provider.assert_requested()

    def test_script():
        with FakeProvider(SAID) as provider:
            provider.assert_script_used()
"""
# What else fails, and how it is told.
CALLS = {
    "assert_folds_to(SAID, fold=lambda body: 'Ho')": "AssertionError: text: expected 'Hi'",
    "assert_folds_to(SAID, fold=lambda body: None)": "TypeError: result: expected text, *received NoneType",
    "assert_folds_to(SAID, 5)": "TypeError: result: expected text, *received int",
    "assert_folds_to(SAID.body)": "TypeError: completion: expected the result of the body, received None",
    "assert_folds_to('data: x', 'x')": "TypeError: body: expected bytes, *received str",
    "assert_same_however_cut('data: x')": "TypeError: body: expected bytes, *received str",
}


def test_a_failed_assertion_shows_the_users_code_and_none_of_the_kit(run: pytest.Pytester) -> None:
    calls = "".join(f"\n    def test_call_{place}():\n        {call}\n" for place, call in enumerate(CALLS))
    run.makepyfile(
        mine=f"import json\n{FOLD}\nasync def fold_async(body):\n    return fold(body)\n", test_mine=ASSERTIONS + calls
    )
    result = run.runpytest()
    result.assert_outcomes(failed=7 + len(CALLS))
    result.stdout.fnmatch_lines([line for call, error in CALLS.items() for line in (f">*{call}", f"E*{error}*")])
    shown = result.stdout.str()
    assert set(re.findall(r"^(\S+\.py):\d+:", shown, re.MULTILINE)) == {"test_mine.py", "mine.py"}
    assert not re.search(r"(golden|differences|provider|readings|tasks|runners|_base)\.py:\d+", shown)
    assert shown.count("IndexError: list index out of range\n") >= 3  # with the line of the fold that raised it
    assert len(re.findall(r"^> +text \+= json", shown, re.MULTILINE)) == 3
    assert shown.count("The above exception was the direct cause of the following exception") >= 2


@pytest.mark.parametrize(
    ("operator", "left", "right"),
    [
        ("==", HELLO, HELLO.body),
        ("==", HELLO, StreamBuilder().text("Hel").text("lo").finish().done()),
        ("==", HELLO.body, HELLO.body),
        ("!=", HELLO.body, HELLO.body[:-20]),
        ("==", b"abc", b"abd"),
        ("==", "data: {}", "data: []"),
        ("==", b"data:\n  - yaml", b"data:\n  - other"),
        ("==", b'data: {"a":1}', None),
        ("==", [b"data: {}"], [b"data: []"]),
    ],
)
def test_other_comparisons_are_left_alone(operator: str, left: object, right: object) -> None:
    assert pytest_assertrepr_compare(operator, left, right) is None


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (HELLO.body, HELLO.body[:-20]),
        (HELLO.body, b"error: {}\n\n"),
        (HELLO, StreamBuilder().error("no")),
        (HELLO.body, HELLO.body.replace(b"\n", b"\r\n")),
        (b"data: {\xff}", b"data: {\xfe}"),
    ],
)
def test_the_lines_are_plain(left: object, right: object) -> None:
    lines = pytest_assertrepr_compare("==", left, right)
    assert re.match(r"two bodies of streams differ from byte \d+ on", lines[0])
    assert all("\n" not in line and len(line) < 300 for line in lines)


def test_a_difference_at_the_first_byte_of_an_event_is_in_that_event() -> None:
    role, text, *rest = HELLO.events
    lines = pytest_assertrepr_compare("==", HELLO.body, b"".join([role, b"\n", text, *rest]))
    assert lines[0].endswith(f"from byte {len(role)} on")
    assert [line.partition(":")[0] for line in lines[1:3]] == ["left, event 2", "right, event 1"]


def test_a_difference_before_all_events_is_shown_with_the_first() -> None:
    """Was once wrong: the body was said to have no event."""
    lines = pytest_assertrepr_compare("==", b": ping\n\n" + HELLO.body, b": pong\n\n" + HELLO.body)
    assert [line.partition(":")[0] for line in lines[1:3]] == ["left, event 1", "right, event 1"]
    assert [line.split(" at ")[0] for line in lines if line.endswith("<-- here")] == ["  > event 1"] * 2


# Cost

PROBE = """
import sys

def pytest_sessionfinish():
    loaded = {"chunkfold", "pydantic", "httpx", "httpx2", "hypothesis.strategies", "json_values"} & sys.modules.keys()
    sys.stderr.write(f"loaded: {sorted(loaded)}\\n")
"""


@pytest.mark.slow
def test_a_run_that_does_not_use_it_loads_nothing_of_it(run: pytest.Pytester) -> None:
    run.makeconftest(PROBE)
    run.makepyfile("""
        import pytest

        @pytest.mark.parametrize("one", [1, 2])
        def test_it(one, tmp_path):
            assert b"a" != b"b"

        @pytest.mark.xfail(strict=True)
        def test_fails():
            assert b"a" == b"b"
    """)
    result = run.runpytest_subprocess()
    result.assert_outcomes(passed=2, xfailed=1)
    assert "loaded: []" in result.stderr.str()
    plugins = run.runpytest_subprocess("--trace-config").stdout.str()
    assert re.search(r"chunkfold.*pytest_chunkfold", plugins)


def test_importing_it_loads_nothing_but_pytest() -> None:
    assert loaded_by("import pytest_chunkfold", after="import pytest, contextlib") == {"pytest_chunkfold"}


def test_it_is_left_out_when_it_is_not_wanted(run: pytest.Pytester) -> None:
    run.makepyfile("def test_it(chunkfold_provider): pass")
    run.runpytest("-p", "no:chunkfold").assert_outcomes(errors=1)
    assert run.runpytest("-p", "no:chunkfold", "--chunkfold-record=new").ret == pytest.ExitCode.USAGE_ERROR
