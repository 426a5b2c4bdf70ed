import json
import sys

import pytest

from hetero.accelerator.caps import Cap
from hetero.accelerator.tables import ChipTable, chip_table


@pytest.fixture
def table(tmp_path, monkeypatch):
    def make(caps, peaks=None):
        package = tmp_path / "made_up_tables"
        package.mkdir(exist_ok=True)
        (package / "__init__.py").touch()
        (package / "caps.json").write_text(json.dumps(caps))
        (package / "peaks.json").write_text(json.dumps(peaks or {}))
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, "made_up_tables", raising=False)
        return ChipTable("made_up_tables")

    return make


def test_a_chip_overrides_the_default_and_the_device_overrides_both(table):
    made = table(
        {
            "sources": {"DOC": "vendor/doc@1"},
            "default": {"bf16": {"state": "yes"}, "warp": {"state": "yes", "value": 32}},
            "chips": [
                {
                    "match": "Old.*",
                    "arch": "old",
                    "caps": {"bf16": {"state": "no", "why": "old", "source": "DOC a.md"}},
                }
            ],
        }
    )
    caps = made.caps("Old 1", warp=Cap("yes", value=64))
    assert str(caps.bf16) == "no: old" and caps.bf16.source == "vendor/doc@1 a.md"
    assert caps.warp.value == 64
    assert made.caps("New 1").bf16
    assert made.arch("Old 1") == "old" and made.arch("New 1") == "unknown"


def test_a_match_is_of_the_whole_name(table):
    made = table({"chips": [{"match": "Ascend910B", "arch": "old"}]})
    assert made.arch("Ascend910B1") == "unknown"


def test_peaks_go_by_chip_name_where_capabilities_go_by_architecture(table):
    peak = {"value": 2e12, "unit": "byte/s", "kind": "datasheet", "source": "a table"}
    made = table(
        {"chips": [{"match": "sm_90", "caps": {"bf16": {"state": "yes"}}}]},
        {"chips": [{"match": "Big", "peaks": {"memory": peak}}]},
    )
    caps = made.caps("sm_90", chip="Big")
    assert caps.bf16 and caps.peak("memory").value == 2e12


@pytest.mark.parametrize(
    "row, message",
    [
        ({"state": "no"}, "must say why"),
        ({"state": "yes", "colour": "red"}, "colour"),
        ({"state": "perhaps"}, "perhaps"),
    ],
)
def test_a_malformed_entry_names_file_chip_and_entry(table, row, message):
    made = table({"chips": [{"match": "X", "caps": {"fp64": row}}]})
    with pytest.raises(ValueError, match=f"made_up_tables/caps.json, 'X', 'fp64'.*{message}"):
        made.caps("X")


def test_an_unknown_capability_is_named(table):
    with pytest.raises(ValueError, match="unknown capability 'bf17'"):
        table({"default": {"bf17": {"state": "yes"}}}).caps("X")


@pytest.mark.parametrize("name", ["cpu", "cuda", "ascend", "metax", "biren"])
def test_every_entry_of_the_shipped_tables_is_valid_and_has_a_known_source(name):
    package = f"hetero.backends.{name}"
    made = chip_table(package)
    for file in (made._caps, made._peaks):
        rows = [file.get("default", {}), *(c.get("caps", c.get("peaks", {})) for c in file["chips"])]
        for row in (entry for group in rows for entry in group.values()):
            if "source" in row:
                tag = row["source"].partition(" ")[0]
                assert not tag.isupper() or tag in file["sources"], row
    for chip in made._caps["chips"]:
        made.caps(chip["match"])  # the regex itself matches nothing: checks the default
    keys = [
        *("sm_61", "sm_75", "sm_80", "sm_90", "br1xx", "br2xx", "MetaX C500", "MXC550"),
        *("Ascend910B3", "Ascend910_9391", "Ascend950", "Ascend910A", "Ascend310P3"),
    ]
    for key in keys:
        for cap_name, cap in made.caps(key).items():
            assert cap.state != "no" or cap.why, (key, cap_name)
    for chip in made._peaks["chips"]:
        for row in chip["peaks"].values():
            assert row["source"] and row["kind"] == "datasheet"
