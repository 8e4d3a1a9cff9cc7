"""Finding the app that a command line names: `module:name`, or `module` where it has exactly one app.

Everything that can be wrong with a name is the caller's to mend, so it is InvalidArgument, and says what
there is instead. What the module itself raises while it is imported is wrong with the module: its traceback
goes along as the cause, without the frames of the import.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from holdfast.errors import InvalidArgument
from holdfast.tasks.app import App


def load(target: str) -> App:
    """The app. The current folder is looked at first, as `python -m` does.

    Raises InvalidArgument, with the traceback as its note where the module's own code is at fault.
    """
    module_name, colon, name = target.partition(":")
    if not module_name or (colon and not name):
        raise InvalidArgument(
            f"{target!r} names no app; write it as module:app, e.g. shop.tasks:app"
        )
    if "/" in module_name or module_name.endswith(".py"):
        meant = module_name.removesuffix(".py").strip("./").replace("/", ".")
        raise InvalidArgument(
            f"{module_name!r} is a file; name the module as `import` does: {meant}:{name or 'app'}"
        )
    module = _imported(module_name)
    return _named(module, name) if name else _only(module)


def locate(app: App) -> str:
    """How to `load` an app that this process has; empty if no module has it under a name.

    Of several, the one that tasks are written in: others have only imported it.
    """
    writers = {task.function.__module__ for task in app.tasks.values()}
    found = [
        f"{module_name}:{name}"
        for module_name, module in list(sys.modules.items())
        if module_name != "__main__"
        for name, value in list(getattr(module, "__dict__", {}).items())
        if value is app
    ]
    return next((t for t in found if t.partition(":")[0] in writers), found[0] if found else "")


def _imported(module_name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        # One of those on the way to it, or one that it imports itself?
        if error.name and f"{module_name}.".startswith(f"{error.name}."):
            raise InvalidArgument(
                f"there is no module {error.name!r} here or in what is installed; run this in the folder "
                f"that {module_name.partition('.')[0]} is in, or set PYTHONPATH"
            ) from None
        raise _broken(module_name, error) from error
    except Exception as error:
        raise _broken(module_name, error) from error
    except SystemExit as error:
        raise InvalidArgument(
            f"importing {module_name} ends the program (exit status {error.code!r}); put what it does "
            'below `if __name__ == "__main__":`'
        ) from error


def _broken(module_name: str, error: Exception) -> InvalidArgument:
    said = f"importing {module_name} fails: {type(error).__name__}: {error}"
    made = InvalidArgument(f"{said}; mend it and start again")
    made.add_note(own_trace(error))
    return made


def own_trace(error: BaseException) -> str:
    """The traceback without the frames of the import machinery and of this file."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename != __file__
        and "importlib" not in Path(frame.filename).parts
        and not frame.filename.startswith("<frozen importlib")
    ]
    lines = traceback.format_list(frames) + traceback.format_exception_only(error)
    return "".join(["Traceback (most recent call last):\n", *lines] if frames else lines).rstrip()


def _apps(module: ModuleType) -> dict[str, App]:
    return {name: value for name, value in vars(module).items() if isinstance(value, App)}


def _named(module: ModuleType, name: str) -> App:
    found: Any = module
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise InvalidArgument(
                f"{module.__name__} has no {name!r}; {_hint(module, name)}"
            ) from None
    if not isinstance(found, App):
        raise InvalidArgument(
            f"{module.__name__}:{name} is not an App but {_kind(found)}; {_hint(module, name)}"
        )
    return found


def _only(module: ModuleType) -> App:
    apps = _apps(module)
    if len({id(app) for app in apps.values()}) == 1:
        return next(iter(apps.values()))
    if not apps:
        raise InvalidArgument(f"{module.__name__} has no App; make one there: app = holdfast.App()")
    names = ", ".join(f"{module.__name__}:{name}" for name in sorted(apps))
    raise InvalidArgument(f"{module.__name__} has several apps; name one of them: {names}")


def _hint(module: ModuleType, name: str) -> str:
    apps = sorted(_apps(module))
    if not apps:
        return "and it has no App at all; make one there: app = holdfast.App()"
    close = get_close_matches(name, apps, n=1) or apps
    return f"did you mean {module.__name__}:{close[0]}?"


def _kind(value: object) -> str:
    kind = type(value).__name__
    return f"a {kind}" if kind[0] not in "AEIOUaeiou" else f"an {kind}"
