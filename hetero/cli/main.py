"""Entry point of the ``hetero`` command: joins the command modules and prints errors for people."""

from __future__ import annotations

import io
import os
import sys

import typer

from hetero.cli.conform import conform
from hetero.cli.convert import convert
from hetero.cli.data import data
from hetero.cli.doctor import doctor
from hetero.cli.emulate import emulate
from hetero.cli.export import export
from hetero.cli.lint import lint
from hetero.cli.new_backend import new_backend
from hetero.cli.parity import parity
from hetero.cli.quickstart import quickstart
from hetero.cli.train import train
from hetero.emulators.environment import enter as enter_emulator
from hetero.errors import HeteroError

app = typer.Typer(
    name="hetero",
    help="One interface to every accelerator, and a post-training stack on top.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

for command in (quickstart, train, export, convert, doctor, conform, parity, emulate, lint, new_backend):
    app.command()(command)
app.add_typer(data)


@app.callback(invoke_without_command=True)
def _version(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        from hetero import __version__

        print(f"hetero {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line.

    A :class:`HeteroError`, or a file that cannot be read or written, is one message and exits with code 2.
    """
    _make_writable()
    try:
        if sys.argv[1:2] != ["emulate"]:
            enter_emulator()  # HETERO_EMULATE: starts over, before torch is imported
        app()
    except HeteroError as error:
        print(f"hetero: {error}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        if error.filename is None:
            raise
        print(f"hetero: {error.filename}: {error.strerror}", file=sys.stderr)
        sys.exit(2)
    finally:
        _flush()


def _flush() -> None:
    """Write out what is buffered. A reader that is gone (`| head`) is nothing that Python need report at exit."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _make_writable() -> None:
    """Let no print fail for a closed stream (`>&-`) or for a letter that the terminal's encoding lacks."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - for the rest of the process
        elif isinstance(stream := getattr(sys, name), io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
