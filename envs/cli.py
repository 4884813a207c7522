"""`python -m envs`: stdout is data, everything else goes to stderr, errors are one line and a hint."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from . import build, cache, cache_commands, history, lock, place, resolve, settings, spec
from .errors import CannotBuildError, ToolError, UsageError
from .process import drop_output
from .store import Entry, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from . import diff, verify
    from .settings import Settings

SCHEMA = 1
Subcommands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001  (argparse has no public name)
_SIZE = re.compile(r"(?P<number>\d+(\.\d+)?)(?P<unit>[KMGT]?)B?\Z")
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def main(argv: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    arguments = parser().parse_args(argv)
    command: Callable[[argparse.Namespace, Settings], int] = arguments.command
    try:
        code = command(arguments, settings.from_arguments(arguments, os.environ))
        sys.stdout.flush()
    except ToolError as error:
        _say(f"error: {error.message}")
        if error.hint:
            _say(f"hint: {error.hint}")
        return error.exit_code
    except BrokenPipeError:
        return drop_output()
    except KeyboardInterrupt:
        _say("interrupted; nothing half-made was left")
        return 130
    return code


def parser() -> argparse.ArgumentParser:
    """Every command with its options."""
    top = argparse.ArgumentParser(
        prog="python -m envs",
        description="Make environments with a real torch, prove what they are, and keep them in a store.",
        epilog="example: python -m envs build cu130",
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    def add(
        name: str, command: Callable[[argparse.Namespace, Settings], int], text: str, *, to: Subcommands = commands
    ) -> argparse.ArgumentParser:
        sub = to.add_parser(name, help=text, description=text)
        sub.add_argument("--json", action="store_true", help="print JSON")
        settings.add_arguments(sub)
        sub.set_defaults(command=command)
        return sub

    add("list", _list, "list the definitions and what is built")
    sub = add("lock", _lock, "resolve definitions again and write their locks")
    sub.add_argument("names", nargs="+", metavar="NAME", help="definition, or path of a TOML file")
    sub.add_argument("--output", metavar="FILE", help="write the lock there (one NAME only)")
    sub.add_argument("--check", action="store_true", help="change nothing; say whether the committed lock fits")
    sub = add("build", _build, "build an environment unless it is in the store")
    sub.add_argument("name", metavar="NAME", help="definition, or path of a TOML file")
    sub.add_argument("--torch", metavar="VERSION", default="", help="another version of torch")
    sub.add_argument("--cuda", metavar="TAG", default="", help="another CUDA variant, with --torch")
    sub.add_argument("--date", metavar="YYYYMMDD", default="", help="the nightly of that date")
    sub.add_argument("--dry-run", action="store_true", help="say what it would take")
    sub = add("path", _path, "print the directory of a built environment")
    sub.add_argument("name", metavar="NAME")
    sub = add("verify", _verify, "hash every installed file against RECORD and list what does not belong")
    sub.add_argument("name", metavar="NAME", help="built environment, or the directory of any virtual environment")
    sub = add("diff", _diff, "list how two environments differ, what is likeliest to matter first, and why")
    sub.add_argument("before", metavar="A", help="built environment, or the directory of any virtual environment")
    sub.add_argument("after", metavar="B", nargs="?", help="left out: A is compared with the base of its history")
    sub.add_argument("--all", action="store_true", help="also list what has no known way to matter")
    sub = add("base-image", _base_image, "give the container engine the image that environments are built in")
    sub.add_argument("--from", dest="reference", metavar="IMAGE@DIGEST", default="", help="pull it from a registry")
    sub.add_argument("--rootfs", metavar="ARCHIVE", type=Path, help="import a root file system archive")
    sub.add_argument("--suite", metavar="NAME", default="bookworm", help="Debian release to make it from")
    caches = commands.add_parser("cache", help="keep compile caches as archives: save, restore, list")
    cached = caches.add_subparsers(required=True, metavar="ACTION")
    cache_commands.add_save(add("save", _cache_save, "save a compile cache with a manifest", to=cached))
    cache_commands.add_restore(add("restore", _cache_restore, "restore one into a build it fits", to=cached))
    add("list", _cache_list, "list the saved compile caches", to=cached)
    sub = add("prune", _prune, "remove what killed builds left, and environments on request")
    sub.add_argument("names", nargs="*", metavar="NAME", help="environments to remove")
    sub.add_argument("--max-size", metavar="SIZE", help="remove the least recently used until the rest fits (50G)")
    sub.add_argument("--all", action="store_true", help="remove every environment")
    sub.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    return top


def _list(arguments: argparse.Namespace, chosen: Settings) -> int:
    from tabulate import tabulate  # noqa: PLC0415  (a cached environment is to be ready in half a second)

    rows = [_definition_row(definition, chosen) for definition in spec.shipped()]
    told = [_definition_row(definition, chosen) for definition in history.definitions()]
    entries = [_entry_row(entry, chosen) for entry in Store(chosen.store).entries()]
    if arguments.json:
        return _print_json({"schema": SCHEMA, "definitions": rows, "histories": told, "environments": entries})
    table = [(row["name"], row["torch"] or "newest", row["cuda"], row["state"], row["summary"]) for row in rows]
    print(tabulate(table, headers=("name", "torch", "cuda", "state", "what")))  # noqa: T201
    done = [(row["name"], row["state"], row["summary"].partition(", then ")[2]) for row in told]
    print(f"\n{tabulate(done, headers=('with a history', 'state', 'what was done to it'))}")  # noqa: T201
    own = {row["digest"] for row in (*rows, *told)}
    others = [
        (item["name"], item["torch"], item["cuda"], _gb(item["bytes"]), item["path"])
        for item in entries
        if item["digest"] not in own
    ]
    if others:
        print(f"\n{tabulate(others, headers=('also built', 'torch', 'cuda', 'size', 'path'))}")  # noqa: T201
    return 0


def _definition_row(definition: spec.Definition, chosen: Settings) -> dict[str, Any]:
    entry = build.entry_of(definition, chosen)
    locked = (resolve.LOCKS / f"pylock.{history.base_of(definition).name}.toml").exists()
    return {
        "name": definition.name,
        "summary": definition.summary,
        "torch": definition.torch,
        "cuda": definition.cuda,
        "channel": str(definition.channel),
        "python": list(definition.pythons),
        "state": "built" if entry else "locked" if locked else "not locked",
        "digest": entry.digest if entry else "",
        "path": str(Store(chosen.store).directory(entry.digest)) if entry else "",
        "bytes": entry.bytes if entry else 0,
    }


def _entry_row(entry: Entry, chosen: Settings) -> dict[str, Any]:
    return {
        "name": entry.name,
        "torch": entry.fingerprint.torch or entry.torch,
        "cuda": entry.cuda,
        "interpreter": entry.interpreter,
        "digest": entry.digest,
        "path": str(Store(chosen.store).directory(entry.digest)),
        "bytes": entry.bytes,
    }


def _lock(arguments: argparse.Namespace, chosen: Settings) -> int:
    if arguments.output and len(arguments.names) > 1:
        raise UsageError("--output takes the lock of one definition", hint="give one NAME")
    rows = []
    for name in arguments.names:
        definition = spec.load(name)
        if arguments.check:
            resolved, path = _checked(definition)
        else:
            _say(f"resolving {definition.name}")
            resolved, path = _resolved(definition, chosen, arguments.output)
        rows.append({"name": definition.name, "path": path, "digest": resolved.digest, "lock": asdict(resolved)})
    if arguments.json:
        return _print_json({"schema": SCHEMA, "locks": rows})
    for row in rows:
        print(row["path"])  # noqa: T201
    return 0


def _checked(definition: spec.Definition) -> tuple[lock.Lock, str]:
    found = resolve.committed_lock(definition)
    if found is None:
        raise UsageError(f"{definition.name} has no committed lock", hint=f"python -m envs lock {definition.name}")
    return found, str(resolve.LOCKS / f"pylock.{definition.name}.toml")


def _resolved(definition: spec.Definition, chosen: Settings, output: str | None) -> tuple[lock.Lock, str]:
    """Resolve and write: beside the shipped definitions for a shipped release, else to the file, else to the store."""
    shipped = definition.name in {item.name for item in spec.shipped()}
    replaced = chosen.index or chosen.wheelhouse
    if shipped and definition.torch and not output and not replaced:
        resolved = resolve.lock_universal(definition, chosen)
        path = resolve.LOCKS / f"pylock.{definition.name}.toml"
    else:
        resolved = resolve.lock_now(resolve.pinned(definition, chosen), chosen)
        path = Path(output) if output else resolve.resolved_path(resolve.pinned(definition, chosen), chosen)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(lock.to_toml(resolved), encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot write the lock to {path}: {error.strerror}", hint="choose another --output"
        ) from error
    return resolved, str(path)


def _build(arguments: argparse.Namespace, chosen: Settings) -> int:
    definition = spec.load(arguments.name)
    if arguments.torch:
        definition = spec.with_torch(definition, version=arguments.torch, cuda=arguments.cuda)
    elif arguments.cuda:
        raise UsageError("--cuda needs --torch", hint="which version of torch for that variant?")
    if arguments.date:
        definition = resolve.newest(definition, chosen, date=arguments.date)
    if arguments.dry_run:
        return _dry_run(arguments, definition, chosen)
    built = build.build(definition, chosen, report=_say)
    if arguments.json:
        return _print_json(
            {
                "schema": SCHEMA,
                "name": built.name,
                "digest": built.digest,
                "path": str(built.path),
                "python": str(built.python),
                "cached": built.cached,
                "seconds": built.seconds,
                "fingerprint": built.fingerprint.as_json(),
            }
        )
    print(built.path)  # noqa: T201
    said = built.fingerprint
    _say(
        f"torch {said.torch or said.torch_error} (CUDA {said.cuda or '?'}, {said.git_version[:11] or '?'}), "
        f"Python {said.python}, {'ready' if built.cached else 'built'} in {built.seconds:.1f} s"
    )
    return 0


def _dry_run(arguments: argparse.Namespace, definition: spec.Definition, chosen: Settings) -> int:
    needs = build.estimate(resolve.lock_for(definition, chosen), chosen)
    built = build.is_built(definition, chosen)
    if arguments.json:
        return _print_json({"schema": SCHEMA, "name": definition.name, "built": built, **asdict(needs)})
    _say(
        f"{definition.name}: {'built already; ' if built else ''}at most {_gb(needs.download_bytes)} to download, "
        f"about {_gb(needs.disk_bytes)} on disk"
    )
    return 0


def _path(arguments: argparse.Namespace, chosen: Settings) -> int:
    entry = _built_entry(arguments.name, chosen)
    store = Store(chosen.store)
    if arguments.json:
        row = {"python": str(store.python(entry.digest)), **_entry_row(entry, chosen)}
        return _print_json({"schema": SCHEMA, **row})
    print(store.directory(entry.digest))  # noqa: T201
    return 0


def _verify(arguments: argparse.Namespace, chosen: Settings) -> int:
    """Exit code 3 when the environment contradicts its own records."""
    from . import verify  # noqa: PLC0415  (a cached environment is to be ready in half a second)

    if (Path(arguments.name) / "pyvenv.cfg").exists():
        found = verify.verify(Path(arguments.name).resolve())
    else:
        directory = Store(chosen.store).directory(_built_entry(arguments.name, chosen).digest)
        found = verify.verify(directory / "venv", memory=directory / "verified.json", pins=build.pins_of(directory))
    if arguments.json:
        _print_json(_verification_json(arguments.name, found))
    else:
        _print_verification(arguments.name, found)
    return 0 if found.ok else 3


def _verification_json(name: str, found: verify.Verification) -> dict[str, Any]:
    groups: dict[str, list[dict[str, Any]]] = {str(kind): [] for kind in type(found).kinds()}
    for finding in found.findings:
        groups[finding.kind].append(
            {"path": finding.path, "owners": list(finding.owners), "detail": finding.detail, "fault": finding.fault}
        )
    return {
        "schema": SCHEMA,
        "environment": name,
        "ok": found.ok,
        "files": found.files,
        "bytes": found.bytes,
        "hashed": found.hashed,
        "seconds": found.seconds,
        **groups,
    }


def _print_verification(name: str, found: verify.Verification) -> None:
    faults = sum(finding.fault for finding in found.findings)
    verdict = "as recorded" if found.ok else f"NOT as recorded: {faults} finding{'s' if faults > 1 else ''}"
    print(f"{name}: {verdict} ({found.files} files, {_gb(found.bytes)}, {found.seconds:.1f} s)")  # noqa: T201
    for finding in found.findings:
        owners = f" ({', '.join(finding.owners)})" if finding.owners else ""
        print(f"  {finding.kind}: {finding.path}{owners}{': ' if finding.detail else ''}{finding.detail}")  # noqa: T201


def _diff(arguments: argparse.Namespace, chosen: Settings) -> int:
    from . import diff  # noqa: PLC0415  (a cached environment is to be ready in half a second)

    first, second = arguments.before, arguments.after
    if second is None:
        if "+" not in first:
            raise UsageError(f"{first} has no history to compare with its base", hint="give two environments")
        first, second = first.partition("+")[0], first
    before, after = (_snapshot(name, chosen) for name in (first, second))
    found = diff.compare(before, after)
    if arguments.json:
        rows = [asdict(each) for each in found]
        outside = diff.only_outside_packages(found)
        names = {"before": before.name, "after": after.name}
        summary = list(diff.summary(found))
        told = {**names, "packages_equal": outside or not found, "summary": summary, "differences": rows}
        return _print_json({"schema": SCHEMA, **told})
    shown = [each for each in found if arguments.all or each.weight > diff.PLAIN_WEIGHT]
    print(f"{before.name} -> {after.name}: {len(found)} difference{'' if len(found) == 1 else 's'}")  # noqa: T201
    if diff.only_outside_packages(found):
        print("the Python packages are equal; what differs lies outside them")  # noqa: T201
    for line in diff.summary(found):
        print(f"  {line}")  # noqa: T201
    for each in shown:
        change = f"{each.before or '(absent)'} -> {each.after or '(absent)'}"
        print(f"  [{each.weight:3d}] {each.kind} {each.name}: {change}\n        {each.why}")  # noqa: T201
    if len(shown) < len(found):
        print(f"  and {len(found) - len(shown)} with no known way to change torch (--all lists them)")  # noqa: T201
    return 0


def _snapshot(name: str, chosen: Settings) -> diff.Snapshot:
    from . import snapshot  # noqa: PLC0415  (see _diff)

    if (Path(name) / "pyvenv.cfg").exists():
        return snapshot.of_directory(Path(name).resolve())
    entry = _built_entry(name, chosen)
    return snapshot.of_entry(entry, Store(chosen.store).directory(entry.digest))


def _base_image(arguments: argparse.Namespace, chosen: Settings) -> int:
    from . import base_image  # noqa: PLC0415  (a cached environment is to be ready in half a second)

    if arguments.rootfs is not None and not arguments.rootfs.is_file():
        raise UsageError(f"--rootfs: there is no file {arguments.rootfs}")
    identifier = base_image.make(
        chosen, rootfs=arguments.rootfs, reference=arguments.reference, suite=arguments.suite, report=_say
    )
    if arguments.json:
        return _print_json({"schema": SCHEMA, "image": chosen.base_image, "id": identifier})
    print(f"{chosen.base_image} {identifier}")  # noqa: T201
    return 0


def _cache_save(arguments: argparse.Namespace, chosen: Settings) -> int:
    entry = _built_entry(arguments.env, chosen)
    archive, manifest = cache_commands.save(arguments, chosen, entry)
    if arguments.json:
        return _print_json({"schema": SCHEMA, **cache_commands.row(archive, manifest)})
    print(archive)  # noqa: T201
    _say(f"saved {manifest.bytes / 1e6:.1f} MB of {', '.join(folder.name for folder in manifest.folders)}")
    return 0


def _cache_restore(arguments: argparse.Namespace, chosen: Settings) -> int:
    manifest = cache_commands.restore(arguments, chosen, _built_entry(arguments.env, chosen))
    if arguments.json:
        row = cache_commands.row(cache_commands.locate(arguments.archive, chosen), manifest)
        return _print_json({"schema": SCHEMA, "directory": arguments.directory, **row})
    print(arguments.directory)  # noqa: T201
    _say(f"restored {manifest.bytes / 1e6:.1f} MB made by {manifest.environment} (torch {manifest.torch})")
    return 0


def _cache_list(arguments: argparse.Namespace, chosen: Settings) -> int:
    from tabulate import tabulate  # noqa: PLC0415  (see _list)

    rows = [cache_commands.row(archive, manifest) for archive, manifest in cache.listing(chosen.store / "caches")]
    if arguments.json:
        return _print_json({"schema": SCHEMA, "caches": rows})
    headers = ("name", "torch", "triton", "GPU", "files", "size")
    print(tabulate(cache_commands.table(rows), headers=headers, disable_numparse=True))  # noqa: T201
    return 0


def _prune(arguments: argparse.Namespace, chosen: Settings) -> int:
    store = Store(chosen.store)
    entries = store.entries()
    doomed = _doomed(entries, arguments, chosen)
    removed = [entry for entry in doomed if arguments.dry_run or store.remove(entry.digest)]
    for entry in doomed:
        if entry not in removed:
            _say(f"kept {entry.name} torch {entry.torch} {entry.cuda}: it is in use")
    leftovers = 0 if arguments.dry_run else store.remove_leftovers()
    containers = 0 if arguments.dry_run else place.remove_leftovers(chosen.store)
    kept = sum(entry.bytes for entry in entries) - sum(entry.bytes for entry in removed)
    if arguments.json:
        rows = [_entry_row(entry, chosen) for entry in removed]
        return _print_json(
            {
                "schema": SCHEMA,
                "removed": rows,
                "leftovers": leftovers,
                "containers": containers,
                "kept_bytes": kept,
                "dry_run": arguments.dry_run,
            }
        )
    verb = "would remove" if arguments.dry_run else "removed"
    for entry in removed:
        print(f"{verb} {entry.name} torch {entry.torch} {entry.cuda}, {_gb(entry.bytes)}")  # noqa: T201
    others = f"{leftovers} unfinished builds and {containers} containers"
    _say(f"{verb} {len(removed)} environments, {others}; {_gb(kept)} remain")
    return 0


def _doomed(entries: tuple[Entry, ...], arguments: argparse.Namespace, chosen: Settings) -> list[Entry]:
    """Named ones, all of them, or the least recently used ones until the rest fits."""
    if arguments.all:
        return list(entries)
    named = {_built_entry(name, chosen).digest for name in arguments.names}
    doomed = [entry for entry in entries if entry.digest in named]
    if arguments.max_size is not None:
        limit = parse_size(arguments.max_size)
        rest = [entry for entry in entries if entry.digest not in named]
        total = sum(entry.bytes for entry in rest)
        for entry in rest:
            if total <= limit:
                break
            doomed.append(entry)
            total -= entry.bytes
    return doomed


def _built_entry(name: str, chosen: Settings) -> Entry:
    """A built environment by the name of its definition, or by the start of its digest."""
    entries = Store(chosen.store).entries()
    matching = [entry for entry in entries if entry.name == name or (len(name) >= 6 and entry.digest.startswith(name))]
    if matching:
        return matching[-1]
    entry = build.entry_of(spec.load(name), chosen)
    if entry is None:
        raise CannotBuildError(f"{name} is not built", hint=f"python -m envs build {name}")
    return entry


def parse_size(text: str) -> int:
    """`50G` -> 50000000000."""
    match = _SIZE.match(text.upper())
    if match is None:
        raise UsageError(f"{text!r} is not a size", hint="write it like 50G")
    return int(float(match["number"]) * _UNITS[match["unit"]])


def _print_json(value: Any) -> int:  # noqa: ANN401  (anything JSON can spell)
    print(json.dumps(value, indent=1, default=str))  # noqa: T201
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201


def _gb(count: int) -> str:
    return f"{count / 1e9:.1f} GB"
