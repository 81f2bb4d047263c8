"""The metrics, of the released and of the latest names; the page has every name, and its picture shows what is recorded."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from fronts import ASKED
from kept_telemetry import HI, REQUEST, SPENT, Telemetry, kept_telemetry, undisturbed
from made_streams import ERROR, STOP

from chunkfold.otel import names
from chunkfold.testing import DONE, chunk

telemetry = kept_telemetry
nothing_failed = undisturbed

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def latest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(names.OPT_IN, f"http, {names.OPT_IN_LATEST}")


SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
COMMON = {"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.response.model"}


def test_the_released_metrics(telemetry: Telemetry) -> None:
    telemetry.read([HI, STOP, SPENT, DONE], ASKED)
    metrics = telemetry.metrics
    assert {name: (metric.unit, telemetry.points(name)[0].explicit_bounds) for name, metric in metrics.items()} == {
        "gen_ai.client.operation.duration": ("s", SECONDS),
        "gen_ai.client.operation.time_to_first_chunk": ("s", SECONDS),
        "gen_ai.client.operation.time_per_output_chunk": ("s", SECONDS),
        "gen_ai.client.token.usage": ("{token}", TOKENS),
    }
    used = {point.attributes["gen_ai.token.type"]: point.sum for point in telemetry.points("gen_ai.client.token.usage")}
    assert used == {"input": 900, "output": 30}
    for name in metrics:
        for point in telemetry.points(name):
            assert set(point.attributes) - {"gen_ai.token.type"} == COMMON
    assert telemetry.attributes["gen_ai.usage.cache_creation.input_tokens"] == 100
    assert telemetry.attributes["gen_ai.usage.reasoning.output_tokens"] == 20


@pytest.mark.usefixtures("latest")
def test_the_latest_metrics(telemetry: Telemetry) -> None:
    telemetry.read([HI, STOP, SPENT, DONE], ASKED)
    metrics = telemetry.metrics
    histograms = {name: telemetry.point(name) for name in metrics if ".usage." not in name}
    assert {name: (metrics[name].unit, point.explicit_bounds) for name, point in histograms.items()} == {
        "gen_ai.client.inference.duration": ("s", SECONDS),
        "gen_ai.client.inference.time_to_first_chunk": ("s", SECONDS),
        "gen_ai.client.inference.time_per_output_chunk": ("s", SECONDS),
        "gen_ai.client.inference.operation.input_tokens": ("{token}", TOKENS),
        "gen_ai.client.inference.operation.output_tokens": ("{token}", TOKENS),
    }
    counters = {name: telemetry.point(name) for name in metrics if ".usage." in name}
    assert {name: (metrics[name].unit, point.value) for name, point in counters.items()} == {
        "gen_ai.client.inference.usage.input_tokens": ("{token}", 900),
        "gen_ai.client.inference.usage.output_tokens": ("{token}", 30),
        "gen_ai.client.inference.usage.cache_read.input_tokens": ("{token}", 512),
        "gen_ai.client.inference.usage.cache_write.input_tokens": ("{token}", 100),
        "gen_ai.client.inference.usage.reasoning.output_tokens": ("{token}", 20),
    }
    assert {point.attributes["gen_ai.token.modality"] for point in counters.values()} == {"unknown"}
    assert all(set(point.attributes) == COMMON for point in histograms.values())
    span = telemetry.span
    assert histograms["gen_ai.client.inference.duration"].sum == pytest.approx((span.end_time - span.start_time) / 1e9)


@pytest.mark.usefixtures("latest")
def test_the_latest_attributes(telemetry: Telemetry) -> None:
    telemetry.read([HI, STOP, SPENT, DONE], REQUEST, capture_content=True)
    attributes = telemetry.attributes
    assert attributes["gen_ai.usage.cache_write.input_tokens"] == 100
    assert attributes["gen_ai.request.reasoning.level"] == "low"
    assert attributes["gen_ai.request.top_k"] == 40
    assert isinstance(attributes["gen_ai.request.top_k"], int)
    assert "gen_ai.usage.cache_creation.input_tokens" not in attributes
    assert json.loads(attributes["gen_ai.output.messages"])[0].keys() == {"role", "parts"}


@pytest.mark.usefixtures("latest")
def test_the_latest_token_histograms_say_that_it_failed(telemetry: Telemetry) -> None:
    telemetry.read([HI, SPENT, ERROR], ASKED)
    assert telemetry.point("gen_ai.client.inference.operation.input_tokens").attributes["error.type"] == "503"
    assert "error.type" not in telemetry.point("gen_ai.client.inference.usage.input_tokens").attributes


def test_usage_that_did_not_come_is_not_invented(telemetry: Telemetry) -> None:
    telemetry.read([HI, STOP, DONE], ASKED)
    assert [name for name in telemetry.metrics if "token" in name] == []
    assert [name for name in telemetry.attributes if "usage" in name] == []


@pytest.mark.usefixtures("latest")
@pytest.mark.parametrize("body", [[HI, STOP, DONE], [HI, ERROR], []], ids=["whole", "failed", "nothing came"])
def test_the_latest_counters_count_0_for_usage_that_did_not_come(body: list[bytes], telemetry: Telemetry) -> None:
    telemetry.read(body, ASKED)
    counters = [name for name in telemetry.metrics if "token" in name]
    assert all(".usage." in name for name in counters)
    assert len(counters) == 5
    for name in counters:
        point = telemetry.point(name)
        assert (point.value, point.attributes["gen_ai.token.modality"]) == (0, "unknown")
    assert [name for name in telemetry.attributes if "usage" in name] == []


MODALITIES: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "all of them": (
        {"text_tokens": 60, "audio_tokens": 30, "image_tokens": 10},
        {"text": 60, "audio": 30, "image": 10},
    ),
    "a part": ({"audio_tokens": 30}, {"audio": 30, "unknown": 70}),
    "none": ({"audio_tokens": 0, "cached_tokens": 5}, {"unknown": 100}),
    "more than there are": ({"text_tokens": 80, "audio_tokens": 30}, {"unknown": 100}),
    "of wrong types": ({"text_tokens": "60", "audio_tokens": -1, "image_tokens": True}, {"unknown": 100}),
}


@pytest.mark.usefixtures("latest")
@pytest.mark.parametrize("case", MODALITIES)
@pytest.mark.parametrize(("way", "field"), [("input", "prompt"), ("output", "completion")])
def test_tokens_are_split_by_the_modalities_that_were_sent(
    way: str, field: str, case: str, telemetry: Telemetry
) -> None:
    details, parts = MODALITIES[case]
    used = chunk(usage={f"{field}_tokens": 100, f"{field}_tokens_details": details})
    telemetry.read([HI, STOP, used, DONE], ASKED)
    points = telemetry.points(f"gen_ai.client.inference.usage.{way}_tokens")
    assert {point.attributes["gen_ai.token.modality"]: point.value for point in points} == parts
    assert telemetry.point(f"gen_ai.client.inference.operation.{way}_tokens").sum == 100


@pytest.mark.parametrize("opt_in", ["", names.OPT_IN_LATEST])
def test_the_span_has_the_modalities_by_the_latest_names(
    opt_in: str, telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(names.OPT_IN, opt_in)
    spoken = {"audio_tokens": 30, "text_tokens": 70, "image_tokens": 0}
    used = {"prompt_tokens": 100, "prompt_tokens_details": spoken, "completion_tokens_details": {"audio_tokens": 5}}
    telemetry.read([HI, STOP, chunk(usage=used), DONE], ASKED)
    kinds = {name: value for name, value in telemetry.attributes.items() if name.count(".") == 3 and "usage" in name}
    latest = {"audio.input_tokens": 30, "text.input_tokens": 70, "audio.output_tokens": 5}
    assert kinds == ({f"gen_ai.usage.{name}": value for name, value in latest.items()} if opt_in else {})


def test_a_stream_without_chunks_has_no_time_to_one(telemetry: Telemetry) -> None:
    telemetry.read([DONE], ASKED)
    assert set(telemetry.metrics) == {"gen_ai.client.operation.duration"}
    assert "gen_ai.response.time_to_first_chunk" not in telemetry.attributes


def test_the_environment_chooses_the_names(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, chosen in {
        "": names.RELEASED,
        "http/dup": names.RELEASED,
        "gen_ai_latest_experimental_2": names.RELEASED,
        "gen_ai_latest_experimental": names.LATEST,
        "http, gen_ai_latest_experimental ,db": names.LATEST,
    }.items():
        monkeypatch.setenv(names.OPT_IN, value)
        assert names.names() is chosen


def all_names() -> set[str]:
    """Every name of an attribute or a metric."""
    texts = {value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)}
    for version in (names.RELEASED, names.LATEST):
        texts |= {value for value in map(version.__getattribute__, version.__slots__) if isinstance(value, str)}
        texts |= {*version.usage_input_tokens_of.values(), *version.usage_output_tokens_of.values()}
    return {text for text in texts if text.startswith(("gen_ai.", "openai.", "server.", "error.", "chunkfold."))}


def test_the_page_has_every_name() -> None:
    text = (DOCS / "telemetry.md").read_text("utf-8")
    assert {name for name in all_names() if f"`{name}`" not in text} == set()


def test_the_released_names_are_known_to_the_conventions_package() -> None:
    attributes = pytest.importorskip("opentelemetry.semconv._incubating.attributes.gen_ai_attributes")
    metrics = pytest.importorskip("opentelemetry.semconv._incubating.metrics.gen_ai_metrics")
    if not hasattr(pytest.importorskip("opentelemetry.semconv.schemas").Schemas, "V1_41_1"):
        pytest.skip("needs opentelemetry-semantic-conventions of v1.41 or later")
    known = {value for module in (attributes, metrics) for value in vars(module).values() if isinstance(value, str)}
    latest = {names.TOKEN_MODALITY} | {name for name in all_names() if "client.inference." in name}
    latest |= {names.LATEST.usage_cache_write_tokens, names.LATEST.request_reasoning_level}
    latest |= {*names.LATEST.usage_input_tokens_of.values(), *names.LATEST.usage_output_tokens_of.values()}
    assert {name for name in all_names() - latest if name.startswith("gen_ai.")} <= known


def test_no_other_module_has_names() -> None:
    for path in Path(names.__file__).parent.glob("*.py"):
        if path.name != "names.py":
            assert '"gen_ai.' not in path.read_text("utf-8"), path.name


# The picture


def words_of(svg: str) -> list[str]:
    """What the picture says, without times and without the axis, which depends on them."""
    words = re.findall(r"<text [^>]*>([^<]*)</text>", svg)
    return [re.sub(r"\d+ ms", "# ms", each) for each in words if not re.fullmatch(r"\d+ ms", each)]


@pytest.mark.slow
def test_the_picture_shows_what_is_recorded() -> None:
    import trace_picture  # which needs the SDK

    drawn = words_of(trace_picture.picture(trace_picture.trace()))
    assert "error.type ConnectError" in drawn
    assert words_of((DOCS / "trace.svg").read_text("utf-8")) == drawn, "python tests/trace_picture.py docs/trace.svg"
