"""Recipes: what is accepted, and that everything wrong is named with its line and the fix."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hetero.errors import RecipeError
from hetero.train.recipe import Recipe, load

RECIPES = Path(__file__).parents[3] / "recipes"
#: Each line holds nine of the line before: 9 ** 8 parts in 300 bytes.
ALIAS_BOMB = "k0: &a0 [x]\n" + "".join(
    f"k{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 9)
)
BASE = "model_name_or_path: hetero:tiny-qwen2\ndataset_name: hetero:arithmetic\n"


@pytest.fixture
def write(tmp_path):
    def write(text: str, name: str = "r.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def problem(path, overrides=()) -> str:
    with pytest.raises(RecipeError) as caught:
        load(path, overrides)
    return str(caught.value)


def test_defaults_are_those_of_trl(write):
    recipe = load(write(BASE))
    assert (recipe.learning_rate, recipe.max_length, recipe.num_train_epochs) == (2e-5, 1024, 3.0)
    assert (recipe.per_device_train_batch_size, recipe.gradient_accumulation_steps) == (8, 1)
    assert (recipe.adam_beta1, recipe.adam_beta2, recipe.adam_epsilon) == (0.9, 0.999, 1e-8)
    assert (recipe.lora_r, recipe.lora_alpha, recipe.lora_dropout) == (16, 32, 0.05)
    assert recipe.output_dir == str(Path.cwd() / "runs" / "r")


@pytest.mark.parametrize(
    "line, key, value",
    [
        ("learning_rate: 1e-5", "learning_rate", 1e-5),  # text in YAML 1.1
        ("learning_rate: 1E-5", "learning_rate", 1e-5),
        ('learning_rate: "1e-5"', "learning_rate", 1e-5),
        ("learning_rate: 1", "learning_rate", 1.0),
        ("max_steps: 1e3", "max_steps", 1000),
        ("max_steps: 1_000", "max_steps", 1000),
        ("packing: yes", "packing", True),
        ("packing: Off", "packing", False),
        ("report_to: none", "report_to", []),
        ("report_to: tensorboard", "report_to", ["tensorboard"]),
        ("max_length: null", "max_length", None),
        ("max_length: ~", "max_length", None),
        ("resume_from_checkpoint: true", "resume_from_checkpoint", True),
        (
            "chat_template_kwargs: {enable_thinking: false}",
            "chat_template_kwargs",
            {"enable_thinking": False},
        ),
        ("output_dir: /no", "output_dir", "/no"),
        ('ops: "rms_norm=cpp,*;rope=-cpp; *=reference"', "ops", "rms_norm=cpp,*;rope=-cpp; *=reference"),
    ],
)
def test_yaml_values(write, line, key, value):
    assert getattr(load(write(BASE + line + "\n")), key) == value


@pytest.mark.parametrize(
    "line, parts",
    [
        ("learning_rte: 1", [":3: unknown key 'learning_rte'", "did you mean 'learning_rate'"]),
        ("zzz: 1", [":3: unknown key 'zzz'", "docs/recipes.md"]),
        ("bf16: true", [":3: unknown key 'bf16'", "dtype: bfloat16"]),
        ("max_steps: many", [":3: max_steps: expected a whole number", 'got the text "many"', "for example"]),
        ("max_steps: 1.5", ["expected a whole number", "got the number 1.5"]),
        ("max_steps: true", ["expected a whole number", "got true"]),
        ("max_steps: 0", ["nothing would be trained"]),
        ("learning_rate: [1]", ["expected a number of at least 0", "got a list"]),
        ("learning_rate: .nan", ["learning_rate: expected a number"]),
        ("learning_rate: -1", ["of at least 0", "got the number -1"]),
        ("adam_beta1: 1", ["below 1"]),
        ("dtype: float8", ["one of float32, bfloat16", 'got the text "float8"']),
        ("seed: 18446744073709551616", ["of at least 0 and below 4294967296"]),
        ("output_dir: 7", ["expected text, got the number 7", 'output_dir: "7"']),
        ("seed:", ["got nothing; remove the line to use 42"]),
        ("packing: 3", ["expected true or false"]),
        ("packing: maybe", ["expected true or false"]),
        ("trust_remote_code: true", ["trust_remote_code: expected false, got true"]),
        ("lora_r: 8", [":3: lora_r has no effect", "add `use_peft: true`"]),
        ("use_peft: false\nlora_alpha: 8", [":4: lora_alpha has no effect", ":3 sets use_peft: false"]),
        ("packing_strategy: bfd", ["packing_strategy has no effect", "add `packing: true`"]),
        ("max_steps: 5\nnum_train_epochs: 2", [":3: max_steps and num_train_epochs", ":4)", "keep one"]),
        ("warmup_ratio: 0.1\nwarmup_steps: 2", ["warmup_steps and warmup_ratio", ":3)", ":4:"]),
        ("overwrite_output_dir: true\nresume_from_checkpoint: true", ["keep one"]),
        ("packing: true\nmax_length: null", ["packing needs a row length", ":4)"]),
        ("eval_steps: 5", ["no evaluation data"]),
        ("dataset_test_split: train", ["both 'train'"]),
        ("ops: rms_norm=", ["not like `op=implementation"]),
        ("ops: rms_norm", ["not like `op=implementation"]),
        ("seed: 1\nseed: 2", [":4: 'seed' is set already", ":3"]),
        ("lr: 1\nlearning_rate: 2", [":4: 'learning_rate' is set already", "as 'lr'"]),
        ("eval_dataset_name: nowhere.jsonl", ["nowhere.jsonl does not exist"]),
        ("chat_template_path: nowhere.jinja", ["nowhere.jinja does not exist"]),
        ("resume_from_checkpoint: nowhere", ["checkpoint folder", "does not exist"]),
    ],
)
def test_wrong_lines_are_named(write, line, parts):
    path = write(BASE + line + "\n")
    message = problem(path)
    for part in [str(path), *parts]:
        assert part in message


def test_all_problems_at_once_in_line_order(write):
    path = write(
        "dataset_name: nowhere.jsonl\nlearning_rte: 1\nmax_steps: many\ndtype: int4\n"
        "model_name_or_path: hetero:x\n"
    )
    message = problem(path, ["lr=fast", "seed"])
    parts = ["7 problems", "override 'lr=fast'", ":1:", ":2:", ":3:", ":4:", ":5:"]
    places = [message.index(part) for part in parts]
    assert places == sorted(places) and "override 'seed': write it as key=value" in message


def test_missing_required_keys(write):
    message = problem(write("seed: 1\n"))
    assert "model_name_or_path is missing" in message and "dataset_name is missing" in message


@pytest.mark.parametrize(
    "text, part",
    [
        ("", "r.yaml is empty"),
        ("# only a comment\n", "is empty"),
        ("- a\n- b\n", ":1: a recipe is a list of `key: value` lines"),
        ("seed: 1\nfoo: [1\n", "not valid YAML"),
        ("seed: 1\n\tlr: 2\n", "tab"),
        ("a: &x [*x]\n", "r.yaml:1: nested deeper"),
        (ALIAS_BOMB, "r.yaml:5: the value has more than"),
        ("a: " + "[" * 400, "not valid YAML"),
        ("a: !!python/object/apply:os.system [echo]\n", "not valid YAML"),
        ("? [a]\n: 1\n", "a key must be a plain word"),
    ],
)
def test_text_that_is_no_recipe(write, text, part):
    message = problem(write(text))
    assert part in message and message.count("r.yaml") == 1


def test_files_that_cannot_be_read(write, tmp_path):
    write(BASE, "other.yaml")
    assert "does not exist" in problem(tmp_path / "r.yaml") and "other.yaml" in problem(tmp_path / "r.yaml")
    assert "is not a file" in problem(tmp_path)
    (tmp_path / "link.yaml").symlink_to(tmp_path / "gone")
    assert "link to nothing" in problem(tmp_path / "link.yaml")
    (tmp_path / "b.yaml").write_bytes(b"seed: \xff\n")
    assert "not UTF-8" in problem(tmp_path / "b.yaml")


def test_byte_order_mark(tmp_path):
    (tmp_path / "r.yaml").write_text(BASE, encoding="utf-8-sig")
    assert load(tmp_path / "r.yaml").model_name_or_path == "hetero:tiny-qwen2"


def test_overrides_replace_lines(write):
    path = write(
        BASE + "learning_rate: 1\nnum_train_epochs: 2\nuse_peft: true\nlora_r: 4\nwarmup_ratio: 0.5\n"
    )
    recipe = load(path, ["lr=1e-5", "max_steps=7", "use_peft=false", "warmup-steps=3", "--seed=9"])
    assert (recipe.learning_rate, recipe.max_steps, recipe.use_peft) == (1e-5, 7, False)
    assert (recipe.warmup_steps, recipe.warmup_ratio, recipe.seed) == (3, 0.0, 9)
    assert load(path, ["lora_target_modules=q_proj,v_proj"]).lora_target_modules == ["q_proj", "v_proj"]
    assert load(path, ["seed=1", "seed=2"]).seed == 2


@pytest.mark.parametrize(
    "text, part",
    [
        ("lr=fast", 'lr: expected a number of at least 0, got the text "fast"'),
        ("lerning_rate=1", "did you mean 'learning_rate'"),
        ("=1", "key=value"),
        ("lr=[1", "not valid YAML"),
        ("ops=*=reference", "goes in quotes, within those of the shell: 'ops=\"...\"'"),
        ("lora_r=2", "lora_r has no effect"),
    ],
)
def test_wrong_overrides(write, text, part):
    message = problem(write(BASE), [text])
    assert f"override {text!r}" in message and part in message


def test_paths(write, tmp_path, monkeypatch):
    (tmp_path / "there").mkdir()
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/d.jsonl").write_text("{}")
    (tmp_path / "here.jsonl").write_text("{}")
    path = tmp_path / "recipes/r.yaml"
    path.write_text("model_name_or_path: hetero:tiny-qwen2\ndataset_name: d.jsonl\noutput_dir: out\n")
    monkeypatch.chdir(tmp_path)
    recipe = load(path)
    assert recipe.dataset_name == str(tmp_path / "recipes/d.jsonl") and recipe.output_dir == str(
        tmp_path / "out"
    )
    assert load(path, ["dataset_name=here.jsonl"]).dataset_name == str(tmp_path / "here.jsonl")
    path.write_text("model_name_or_path: there\ndataset_name: here.jsonl\n")
    message = problem(path)
    assert "relative to its folder" in message and str(tmp_path / "here.jsonl") in message
    assert "no config.json" in problem(path, ["model_name_or_path=there", "dataset_name=here.jsonl"])
    assert "recipes/gone does not exist" in problem(
        path, ["dataset_name=recipes/gone", "model_name_or_path=a/b"]
    )
    assert "does not exist" in problem(path, ["model_name_or_path=./x/y/z", "dataset_name=here.jsonl"])
    assert (
        load(path, ["model_name_or_path=org/name", "dataset_name=here.jsonl"]).model_name_or_path
        == "org/name"
    )


@pytest.mark.parametrize("name", ["./" + "a" * 300, "~no such user/x", "/proc/1/root/x"])
def test_names_that_no_file_can_have(write, name):
    for key in ("model_name_or_path", "dataset_name", "chat_template_path"):
        assert f"override '{key}=" in problem(write(BASE), [f'{key}="{name}/y"'])
    assert "does not exist" in problem(Path(f"{name}.yaml"))


def test_a_run_cannot_delete_or_replace_what_it_starts_from(write, tmp_path):
    for folder in ("run", "run/checkpoint-3"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "config.json").write_text("{}")
    (tmp_path / "link").symlink_to("run")
    for out in ("run", "link"):
        base = [f"output_dir={tmp_path / out}"]
        model = f"model_name_or_path={tmp_path}/link"
        assert "is output_dir, too" in problem(write(BASE), [*base, model])
        assert "overwrite_output_dir deletes" in problem(
            write(BASE), [*base, f"{model}/checkpoint-3", "overwrite_output_dir=true"]
        )
        assert load(write(BASE), [*base, f"{model}/checkpoint-3"])


def test_builtins_are_checked(write):
    assert "no builtin model" in problem(write(BASE), ["model_name_or_path=hetero:huge"])
    assert "no builtin dataset" in problem(write(BASE), ["dataset_name=hetero:poems"])
    assert "no builtin dataset" in problem(write(BASE), ["dataset_name=hetero:arithmetic?rows=x"])


def test_resolved_yaml_reads_back(write):
    recipe = load(
        write(BASE + "use_peft: true\nlearning_rate: 1e-5\nmax_length: null\n"),
        ["eval_dataset_name=hetero:arithmetic"],
    )
    assert "max_length: null" in recipe.to_yaml()
    assert load(write(recipe.to_yaml(), "again.yaml")) == recipe
    steps = load(write(BASE), ["max_steps=3"])
    assert load(write(steps.to_yaml(), "steps.yaml")) == steps


def test_recipe_is_frozen_and_closed():
    with pytest.raises(ValueError, match="extra"):
        Recipe(model_name_or_path="a", dataset_name="b", nonsense=1)
    with pytest.raises(ValueError, match="frozen"):
        Recipe(model_name_or_path="a", dataset_name="b").seed = 1  # type: ignore[misc]


def test_validating_imports_nothing_heavy():
    code = (
        "import sys; from hetero.train.recipe import load\n"
        "assert not {'torch', 'transformers', 'datasets', 'numpy', 'pyarrow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.yaml")), ids=lambda p: p.name)
def test_shipped_recipes(path, tmp_path):
    """The starting points are valid but for the files that users are to supply."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text("{}")
    (tmp_path / "d.jsonl").write_text("{}")
    theirs = [f"model_name_or_path={tmp_path}/model", f"dataset_name={tmp_path}/d.jsonl"]
    load(path, [] if path.stem.startswith("tiny") else theirs)


PREFERENCES = BASE + "algorithm: dpo\n"


def test_each_algorithm_has_its_defaults(write):
    seen = {
        name: (recipe.learning_rate, recipe.loss_type, recipe.disable_dropout)
        for name in ("sft", "dpo", "kto", "rm")
        if (recipe := load(write(BASE), [f"algorithm={name}"]))
    }
    assert seen == {
        "sft": (2e-5, ["nll"], True),
        "dpo": (1e-6, ["sigmoid"], True),
        "kto": (1e-6, ["kto"], True),
        "rm": (1e-4, None, True),
    }
    assert load(write(PREFERENCES + "learning_rate: 3e-6\n")).learning_rate == 3e-6


def test_names_of_other_tools_for_preferences(write):
    text = "pref_beta: 0.2\npref_loss: [sigmoid, sft]\nloss_weights: [1, 1e-1]\ndpo_label_smoothing: 0.1\n"
    recipe = load(write(PREFERENCES + text))
    assert (recipe.beta, recipe.loss_type, recipe.loss_weights) == (0.2, ["sigmoid", "sft"], [1.0, 0.1])
    assert load(write(recipe.to_yaml(), "again.yaml")) == recipe
    weights = load(write(BASE + "algorithm: kto\nkto_chosen_weight: 2\nkto_rejected_weight: 3\n"))
    assert (weights.desirable_weight, weights.undesirable_weight) == (2.0, 3.0)


@pytest.mark.parametrize("algorithm", ["dpo", "kto", "rm"])
def test_resolved_recipes_of_preferences_read_back(write, algorithm):
    recipe = load(write(BASE), [f"algorithm={algorithm}"])
    assert load(write(recipe.to_yaml(), "again.yaml")) == recipe


@pytest.mark.parametrize(
    "line, parts",
    [
        ("loss_type: nll", [":4: loss_type: dpo has no loss 'nll'", "sigmoid"]),
        ("loss_type: [sigmoid, sigmoid]", ["each loss once"]),
        ("loss_type: []", ["at least one"]),
        ("loss_type: [sigmoid, sft]\nloss_weights: [1]", [":5: loss_weights: 1 weights for 2 losses"]),
        ("loss_weights: [one]", ["expected a list of numbers"]),
        ("loss_type: exo_pair", ["exo_pair needs a label_smoothing above 0"]),
        ("label_smoothing: 0.5", ["below 0.5"]),
        ("loss_type: ipo\nlabel_smoothing: 0.1", [":5: label_smoothing: has no effect on this loss"]),
        ("loss_type: nca_pair\nf_divergence_type: forward_kl", ["does not exist for nca_pair"]),
        ("f_alpha_divergence_coef: 0.3", ["add `f_divergence_type: alpha_divergence`"]),
        ("loss_type: simpo\nprecompute_ref_log_probs: true", [":5:", "simpo has no reference model"]),
        ("loss_type: simpo\nld_alpha: 0.5", ["sums over tokens"]),
        ("sync_ref_model: true\nuse_peft: true", ["does not go with use_peft"]),
        (
            "sync_ref_model: true\nprecompute_ref_log_probs: true",
            ["does not go with precompute_ref_log_probs"],
        ),
        ("ref_model_sync_steps: 5", ["add `sync_ref_model: true`"]),
        ("ref_model_name_or_path: nowhere/at/all", [":4: ref_model_name_or_path", "does not exist"]),
        ("packing: true", [":4: packing has no effect because", ":3 sets algorithm: dpo"]),
        ("assistant_only_loss: true", ["assistant_only_loss has no effect"]),
        ("desirable_weight: 2", ["add `algorithm: kto`"]),
        ("center_rewards_coefficient: 0.1", ["add `algorithm: rm`"]),
        ("rpo_alpha: 1", ["write `loss_type: [sigmoid, sft]`"]),
        ("cpo_alpha: 1", ["write `loss_type: [cpo, sft]`"]),
        ("stage: dpo", ["write `algorithm: sft`, `dpo`, `kto` or `rm`"]),
    ],
)
def test_wrong_lines_of_preferences_are_named(write, line, parts):
    message = problem(write(PREFERENCES + line + "\n"))
    assert all(part in message for part in parts), message


def test_losses_of_other_algorithms(write):
    assert "sft has one loss at a time" in problem(write(BASE + "loss_type: [nll, dft]\n"))
    assert "kto has no loss 'sigmoid'" in problem(write(BASE + "algorithm: kto\nloss_type: sigmoid\n"))
    assert "loss_type has no effect" in problem(write(BASE + "algorithm: rm\nloss_type: sigmoid\n"))
    assert "beta has no effect because algorithm is not set" in problem(write(BASE + "beta: 0.2\n"))
