"""API pages show estimators' docstrings as `help` does: with the parameters that many share."""

from __future__ import annotations

import inspect
from typing import Any

import griffe


class Descriptions(griffe.Extension):
    """Takes the docstring of a class decorated by `hyper_parameters` from the class itself."""

    def on_class_instance(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        """Replace what stands in the source by what the class says."""
        del kwargs
        names = [str(decorator.value) for decorator in cls.decorators]
        if "hyper_parameters" in names and cls.docstring:
            cls.docstring.value = inspect.getdoc(griffe.dynamic_import(cls.path)) or ""
