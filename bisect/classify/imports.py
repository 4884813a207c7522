"""What to do about an import that fails, in one sentence: which package, which torch, which symbol, what shadows it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_INSTALLED_IN = re.compile(r"(?:site|dist)-packages/(?P<package>[\w.-]+?)(?:\.(?:cpython|abi3|so)[\w.-]*)?(?:/|:|\s|$)")
_LIBRARY = re.compile(r"(?P<library>lib[\w+-]+\.so[\w.]*)")
_EXTENSION = re.compile(r"(?P<name>[\w-]+)\.(?:cpython-\S+|abi3)\.so")
_SYMBOL = re.compile(r"undefined symbol:? ?(?P<symbol>[\w@.]+)")
_MODULE = re.compile(r"No module named ['\"]?(?P<module>[\w.]+)")
_OF_TORCH = re.compile(r"_ZNK?(?:St|S_|R|K)*\d*(?:3c10|2at|5torch)|\b(?:THP|aoti_torch|torch_)\w+")


def import_advice(text: str, *, torch: str, variables: Mapping[str, str]) -> str:
    """The sentence; `torch` is the version that was there, empty when the evidence does not say."""
    shown = f"torch {torch}" if torch else "the torch installed"
    module = _MODULE.search(text)
    if module is not None and module["module"].startswith("torch."):
        return (
            f"{shown[0].upper()}{shown[1:]} has no module {module['module']}: its files are incomplete, or another "
            "torch than this code was written for was imported (a user site, PYTHONPATH); verify the environment and "
            "build it anew."
        )
    if module is not None:
        return f"Module {module['module']} is not in the environment: add its package to the definition and build anew."
    package = _package(text)
    symbol = _SYMBOL.search(text)
    if symbol is None:
        return _library_advice(text, variables)
    if _OF_TORCH.search(symbol["symbol"]) and package not in ("torch", ""):
        return (
            f"{package} was built for another torch than {shown}: it wants the symbol {symbol['symbol']}. "
            f"Rebuild or reinstall {package} for it, in a new environment."
        )
    return (
        f"{package or 'A library'} wants the symbol {symbol['symbol']}, which the library found beside {shown} lacks: "
        f"an older copy comes first.{_shadow(variables)} Install the pair that belongs together, in a new environment."
    )


def _package(text: str) -> str:
    for pattern, group in ((_INSTALLED_IN, "package"), (_EXTENSION, "name"), (_LIBRARY, "library")):
        match = pattern.search(text)
        if match is not None:
            return match[group]
    return ""


def _library_advice(text: str, variables: Mapping[str, str]) -> str:
    library = _LIBRARY.search(text)
    if library is None:
        return f"The packages do not fit each other: build a new environment from the lock.{_shadow(variables)}"
    return (
        f"{library['library']} is not found or does not fit: reinstall the package that ships it in a new environment "
        f"(uninstalling one wheel can delete another's files).{_shadow(variables)}"
    )


def _shadow(variables: Mapping[str, str]) -> str:
    paths = [f"{name}={variables[name]}" for name in ("LD_LIBRARY_PATH", "LD_PRELOAD") if variables.get(name)]
    return f" {' and '.join(paths)} comes before the environment's own libraries: unset it." if paths else ""
