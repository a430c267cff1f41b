"""A page in headless Chromium, driven over the DevTools protocol; for tests that need a browser."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BINARY = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_SECONDS = 60.0


class Page:
    """One page. ``events`` holds what the browser reported: console messages, exceptions, requests."""

    def __init__(self, socket: Any) -> None:
        self._socket, self._id = socket, 0
        self.events: list[dict[str, Any]] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol and wait for its result."""
        self._id += 1
        self._socket.send(json.dumps({"id": self._id, "method": method, "params": params}))
        while True:
            message = self._receive()
            if message.get("id") == self._id:
                assert "error" not in message, message
                return message["result"]

    def open(self, path: Path) -> None:
        """Open a file and wait until it has loaded."""
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._receive()

    def value(self, script: str) -> Any:
        """The value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def look(self, width: int, height: int = 900, scheme: str = "light") -> None:
        """Set the size of the window and the colour scheme."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def _receive(self) -> dict[str, Any]:
        message = json.loads(self._socket.recv(timeout=_SECONDS))
        if "method" in message:
            self.events.append(message)
        return message


@contextmanager
def chromium(profile: Path) -> Iterator[Page]:
    """Start Chromium with a profile of its own, and end it."""
    from websockets.sync.client import connect

    assert BINARY is not None
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"]
    process = subprocess.Popen(
        [BINARY, *flags, "--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        port = _port(profile / "DevToolsActivePort", process)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=_SECONDS) as answer:
            target = next(t for t in json.load(answer) if t["type"] == "page")
        with connect(target["webSocketDebuggerUrl"], max_size=None, proxy=None) as socket:
            yield Page(socket)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _port(path: Path, process: subprocess.Popen) -> int:
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if path.exists() and (lines := path.read_text().split()):
            return int(lines[0])
        time.sleep(0.05)
    raise AssertionError("Chromium did not say where it listens")
