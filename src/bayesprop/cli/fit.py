"""`fit`: a table in; a model, its held-out metrics and a report out."""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from bayesprop import catalogue
from bayesprop.catalogue import CLASSIFICATION, REGRESSION
from bayesprop.cli.actions import Fit
from bayesprop.cli.console import (
    InputError,
    command_line,
    note,
    plain,
    print_json,
    progress,
    refusals_of_estimator,
    warn,
)
from bayesprop.cli.deciding import Asked, Positive, base_rate_moved, check_two_classes
from bayesprop.cli.deciding import positive_of as positive_class
from bayesprop.cli.deciding import words as rule_in_words
from bayesprop.cli.tables import (
    Judged,
    Target,
    check_output,
    divided,
    fingerprint,
    judge,
    predict_rows,
    print_scores,
    read_source,
    target_of,
)
from bayesprop.datasets import registry
from bayesprop.decisions.thresholds import Rule, UnreachableError
from bayesprop.store import load_model, save_model
from bayesprop.table.encoding import Division, Rows, TableEncoding
from bayesprop.table.errors import did_you_mean, one_line

DEFAULT_METHOD = {REGRESSION: "mlp", CLASSIFICATION: "mlp"}
_SEED = "random_state"
_OPTIONS = {
    "hidden_layer_sizes": "--hidden",
    "n_epochs": "--epochs",
    "batch_size": "--batch-size",
    "inference": "--inference",
    _SEED: "--seed",
}


class Fitted(NamedTuple):
    """What one run of `fit` has learnt; `test` has no rows where none are held out.

    positive, rule
        Of two classes: the positive one, and how to decide, if that was said.
    base_rate
        What the weights did to the shares of the classes, in a sentence; empty if nothing.
    """

    method: str
    estimator: Any
    encoding: TableEncoding
    train: Rows
    test: Rows
    judged: Judged
    warnings: list[str]
    positive: Positive | None = None
    rule: Rule | None = None
    base_rate: str = ""


def run(options: Fit) -> None:
    """Read, split, fit, judge, save, report."""
    _check_paths(options)
    settings, asked = settings_of(options), Asked.of(options)
    if options.task is not None:
        method_of(options.method, options.task, f"--task asks for {options.task}")
    with progress(f"reading {options.table}", quiet=options.quiet):
        frame = read_source(options.table)
    target = target_of(options, frame)
    if options.unit is not None:
        target = target._replace(unit=options.unit)
    parts = divided(options, frame, target.name, options.task or target.task)
    warn(parts.warnings)
    if options.unit and parts.task == CLASSIFICATION:
        raise InputError(f"--unit is for numbers, and {one_line(target.name)} holds classes")
    method = method_of(options.method, parts.task, f"{one_line(target.name)} asks for {parts.task}")
    estimator = make_estimator(settings, method, parts.task, options.seed)
    fitted = _fit(options, method, estimator, parts, asked)
    metadata = _metadata(options, fitted, parts, target)
    save_model(options.out, fitted.estimator, table=fitted.encoding, metadata=metadata)
    if options.report is not None:
        _write_page(options.report, options, fitted, metadata["command"])
    _show(options, fitted, metadata)


def _check_paths(options: Fit) -> None:
    check_output(options.out, "--out", [options.table])
    if options.report is not None:
        check_output(options.report, "--report", [options.table])
        if options.report.resolve() == options.out.resolve():
            raise InputError("--report and --out must be two different files")


def _fit(options: Fit, method: str, estimator: Any, parts: Division, asked: Asked) -> Fitted:
    encoding = parts.encoding()
    train, test = parts.encoded(encoding)
    check_two_classes(encoding.classes, asked.option)
    positive = positive_class(encoding.classes, options.positive, train.y)
    if asked.rate is not None and not len(test.y):
        raise InputError("--rate chooses a threshold on held-out rows: raise --test-fraction")
    moved = base_rate_moved(train, encoding.classes)
    warn([*encoding.report, *moved])
    with (
        progress(f"fitting {len(train.y)} rows", quiet=options.quiet),
        refusals_of_estimator(ValueError, *([TypeError] if options.settings else [])),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", UserWarning)  # the fit's report says the same
        estimator.fit(train.X, train.y, **train.weights)
    warn(estimator.fit_report_.warnings)
    judged = judge(estimator, encoding, train, test, positive and positive.place)
    rule, unreached = _rule(asked, positive, estimator, encoding, test)
    warn([*test.remarks, *unreached])
    remarks = [*parts.warnings, *encoding.report, *moved, *estimator.fit_report_.warnings]
    remarks += [*test.remarks, *unreached]
    return Fitted(
        method, estimator, encoding, train, test, judged, remarks, positive, rule, "".join(moved)
    )


def _rule(
    asked: Asked, positive: Positive | None, estimator: Any, encoding: TableEncoding, test: Rows
) -> tuple[Rule | None, list[str]]:
    """Return how to decide; where held-out rows do not reach a rate, none, and a sentence."""
    predictive = None
    if asked.rate is not None:
        predictive = predict_rows(estimator, test.X, encoding, test.numbers)
    try:
        return asked.rule(positive, predictive, test.y), []
    except UnreachableError as error:
        return None, [f"--rate: {error}; the model is saved without a decision"]


def _metadata(options: Fit, fitted: Fitted, parts: Division, target: Target) -> dict[str, Any]:
    """Say what reproduces the model: the command as typed, and every setting that it implied."""
    return plain(
        {
            "command": command_line(options.words),
            "source": options.table,
            "target": target.name,
            "task": parts.task,
            "unit": target.unit,
            "seed": options.seed,
            "config": {
                "method": fitted.method,
                "parameters": fitted.estimator.get_params(deep=False),
                "test_fraction": options.test_fraction,
                "weights": options.weights,
                "drop": options.drop,
            },
            "rows": parts.counts,
            "target_sha256": fingerprint(fitted.encoding.target(parts.target)),
            "held_out": fitted.judged.scores,
            "baselines": fitted.judged.baselines and fitted.judged.baselines.to_dict(),
            "positive": fitted.positive and fitted.positive.label,
            "decision": fitted.rule and fitted.rule.to_dict(),
            "base_rate": fitted.base_rate,
            **_picture(options, fitted.encoding),
        }
    )


def _picture(options: Fit, encoding: TableEncoding) -> dict[str, Any]:
    """Say which pixel of a picture each input is, where the rows of a known set are pictures."""
    known = registry.find(options.table)
    if known is None or known.image_shape is None:
        return {}
    pixels = {name: place for place, name in enumerate(known.pixel_names)}
    if not set(encoding.feature_names) <= set(pixels):
        return {}
    return {
        "image_shape": list(known.image_shape),
        "image_pixels": [pixels[name] for name in encoding.feature_names],
    }


def _write_page(path: Path, options: Fit, fitted: Fitted, command: str) -> None:
    from bayesprop.cli.report import write_page

    with progress("writing the report", quiet=options.quiet):
        saved, about = load_model(options.out), {"command": command}
        test = fitted.test if len(fitted.test.y) else None
        write_page(path, saved, fitted.encoding, train=fitted.train, test=test, about=about)


def _show(options: Fit, fitted: Fitted, metadata: dict[str, Any]) -> None:
    report, rows = fitted.estimator.fit_report_, metadata["rows"]
    if options.as_json:
        print_json(
            {
                "model": str(options.out),
                "report": None if options.report is None else str(options.report),
                "task": metadata["task"],
                "method": fitted.method,
                "target": metadata["target"],
                "classes": list(fitted.encoding.classes) or None,
                "positive": metadata["positive"],
                "decision": metadata["decision"],
                "unit": metadata["unit"],
                "rows": rows,
                "features": len(fitted.encoding.feature_names),
                "held_out": fitted.judged.scores,
                "seconds": report.seconds,
                "guards": report.guards,
                "warnings": fitted.warnings,
                "command": metadata["command"],
            }
        )
        return
    if fitted.judged.scores is None:
        share = f"--test-fraction {options.test_fraction:g}"
        note(f"no rows were held out ({share} of {rows['train']} rows): the fit is not judged")
    else:
        title = f"{metadata['target']}: {rows['held_out']} held-out rows"
        print_scores(title, fitted.judged.scores, metadata["unit"])
    if fitted.positive is not None:
        how = "as asked" if options.positive else "the rarer; --positive names another"
        note(f"positive class: {fitted.positive.name!r}, {how}", quiet=options.quiet)
        if fitted.rule is not None:
            note(rule_in_words(fitted.rule, fitted.positive), quiet=options.quiet)
    note(f"fitted {rows['train']} rows in {report.seconds:.2f} s", quiet=options.quiet)
    note(f"model: {options.out}", quiet=options.quiet)
    if options.report is not None:
        note(f"report: {options.report}", quiet=options.quiet)


@dataclass(frozen=True)
class Settings:
    """Hyper-parameters that an option of their own set, and those of `--set`."""

    by_option: Mapping[str, Any] = field(default_factory=dict)
    by_name: Mapping[str, Any] = field(default_factory=dict)


def settings_of(fit: Fit) -> Settings:
    """Check what can be checked without a table."""
    check_method(fit.method)
    asked = {
        "hidden_layer_sizes": _hidden(fit.hidden) if fit.hidden else None,
        "n_epochs": fit.epochs,
        "batch_size": fit.batch_size,
        "inference": fit.inference,
    }
    by_option = {name: value for name, value in asked.items() if value is not None}
    by_name = _assigned(fit.settings)
    for name in by_name:
        if name in by_option or name == _SEED:
            raise InputError(f"--set {name}: this is what {_OPTIONS[name]} says; give that alone")
    return Settings(by_option, by_name)


def check_method(name: str | None) -> None:
    """Refuse a name that no method has."""
    if name is not None and name not in catalogue.METHODS:
        hint = did_you_mean(name, catalogue.METHODS) or ";"
        known = ", ".join(catalogue.METHODS)
        raise InputError(f"no method {one_line(name)!r}{hint} there are: {known}")


def method_of(asked: str | None, task: str, why: str) -> str:
    """Return the method for a task, which `why` explains; InputError if it does another one."""
    name = asked or DEFAULT_METHOD[task]
    if task in catalogue.METHODS[name].homes:
        return name
    raise InputError(
        f"--method {name} does {catalogue.METHODS[name].task} only, and {why}; methods for {task}:"
        f" {', '.join(methods_for(task))}"
    )


def methods_for(task: str) -> list[str]:
    """Return the names of the methods that do a task, in the order of the table of methods."""
    return [name for name, method in catalogue.METHODS.items() if task in method.homes]


def make_estimator(settings: Settings, method: str, task: str, seed: int) -> Any:
    """Build the estimator; InputError for a hyper-parameter that it does not have or refuses."""
    has = _parameters_of(method, task)
    for name in settings.by_option:
        if name not in has:
            raise InputError(
                f"{_OPTIONS[name]}: {method} has no such setting for {task}; methods that have it:"
                f" {', '.join(_methods_with(name)) or 'none'}"
            )
    for name in settings.by_name:
        if name not in has:
            raise InputError(
                f"--set {one_line(name)}: {method} has no such parameter"
                f"{did_you_mean(name, has) or ';'}"
                f" it has: {', '.join(one for one in has if one not in _OPTIONS)}"
                f" (and {', '.join(_OPTIONS[one] for one in has if one in _OPTIONS)})"
            )
    asked = {_SEED: seed} if _SEED in has else {}
    with refusals_of_estimator(TypeError, ValueError):
        return catalogue.make(method, task=task, **asked, **settings.by_option, **settings.by_name)


def _parameters_of(method: str, task: str) -> list[str]:
    return list(inspect.signature(catalogue.estimator_class(method, task)).parameters)


def _methods_with(parameter: str) -> list[str]:
    """Return every method that has a hyper-parameter, with the tasks for which it has it."""
    tasks = {
        name: [task for task in method.homes if parameter in _parameters_of(name, task)]
        for name, method in catalogue.METHODS.items()
    }
    return [f"{name} ({', '.join(able)})" for name, able in tasks.items() if able]


def _assigned(assignments: Iterable[str]) -> dict[str, Any]:
    """Read "name=value", the value as JSON, or as plain text where it is none."""
    values: dict[str, Any] = {}
    for text in assignments:
        name, is_given, value = text.partition("=")
        name = name.strip()
        if not is_given or not name.isidentifier():
            raise InputError(
                f"--set must be name=value, such as learning_rate=0.01; got {one_line(text)!r}"
            )
        if name in values:
            raise InputError(f"--set {name} is given twice")
        values[name] = _value(value.strip())
    return values


def _value(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return tuple(value) if isinstance(value, list) else value


def _hidden(words: Sequence[str]) -> tuple[int, ...]:
    """Read the units of every hidden layer from "50", "50,50" or a repeated option."""
    parts = [part.strip() for word in words for part in word.split(",")]
    if not all(part.isdecimal() and int(part) >= 1 for part in parts):
        got = one_line(",".join(parts))
        raise InputError(f"--hidden must be whole numbers >= 1, such as 50 or 50,50; got {got}")
    return tuple(int(part) for part in parts)
