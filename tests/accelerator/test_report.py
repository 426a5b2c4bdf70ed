import json

from hetero.accelerator import report


def test_the_report_is_json_and_complete(plugins, fake, monkeypatch):
    class Raises(fake):
        def probe(self, host):
            raise OSError("libacme.so: cannot open")

    monkeypatch.setenv("HETERO_OPS", "*=reference")
    monkeypatch.setenv("SOMETHING_SECRET", "x")
    plugins(Raises("acme"))
    found = json.loads(json.dumps(report.gather(), default=str))
    rows = {row["name"]: row for row in found["backends"]}
    assert rows["acme"]["state"] == "broken" and "libacme.so" in rows["acme"]["error"]
    assert rows["cpu"]["state"] == "found"
    cpu = rows["cpu"]["devices"][0]
    assert cpu["device"] == "cpu:0" and cpu["caps"]["warp"]["state"] == "no" and cpu["memory"]["total"] > 0
    assert found["default"].startswith("cpu:0 (no accelerator was found")
    assert found["environment"]["env"]["HETERO_OPS"] == "*=reference"
    assert "SOMETHING_SECRET" not in found["environment"]["env"]
    assert {row["op"] for row in found["ops"]} >= {"rms_norm", "cross_entropy"}


def test_a_backend_whose_devices_cannot_be_made_is_broken_with_the_traceback(plugins, fake):
    class Fails(fake):
        def load(self):
            raise OSError("driver too old")

    plugins(Fails("acme", score=-1))
    row = next(r for r in report.gather()["backends"] if r["name"] == "acme")
    assert row["state"] == "broken" and "driver too old" in row["error"] and "Traceback" in row["error"]


def test_an_ambiguous_machine_is_reported_not_raised(plugins, fake):
    plugins(fake("one", 20), fake("two", 20))
    assert "HETERO_BACKEND=one" in report.gather()["default"]


def test_no_backend_at_all_says_how_hetero_is_installed(monkeypatch, plugins):
    from hetero.accelerator import registry

    monkeypatch.setattr(registry, "collect", lambda host: ())
    registry.forget()
    assert any("install hetero with pip" in p for p in report.gather()["problems"])
