# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, by its debugging protocol over two pipes."""

import base64
import json
import os
import shutil
import subprocess
import tempfile

NAMES = ("chromium", "chromium-browser", "google-chrome")
PROGRAM = next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One page. Its errors are in errors."""

    def __init__(self, width=1280, height=1000, dark=False):
        self.folder = tempfile.mkdtemp(prefix="tarn-browser-")
        to_read, self.to_write = os.pipe()
        self.to_read, to_write = os.pipe()

        def connect():
            os.dup2(to_read, 1000)
            os.dup2(to_write, 1001)
            os.dup2(1000, 3)
            os.dup2(1001, 4)

        self.program = subprocess.Popen(
            [PROGRAM, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
             f"--user-data-dir={self.folder}", f"--window-size={width},{height}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            close_fds=False, preexec_fn=connect)
        os.close(to_read)
        os.close(to_write)
        self.pending = b""
        self.count = 0
        self.session = None
        self.errors = []
        self.requests = []
        target = next(found for found in self.call("Target.getTargets")["targetInfos"]
                      if found["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"],
                                 flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network"):
            self.call(f"{domain}.enable")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=False)

    def close(self):
        self.program.kill()
        self.program.wait()
        os.close(self.to_write)
        os.close(self.to_read)
        shutil.rmtree(self.folder, ignore_errors=True)  # its helpers may end a little later

    def receive(self):
        while b"\0" not in self.pending:
            more = os.read(self.to_read, 1 << 20)
            if not more:
                raise RuntimeError("the browser has ended")
            self.pending += more
        message, _, self.pending = self.pending.partition(b"\0")
        message = json.loads(message)
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(message["params"]["exceptionDetails"])
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(message["params"]["request"]["url"])
        return message

    def call(self, method, **parameters):
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to_write, data):]
        while (answer := self.receive()).get("id") != self.count:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def open(self, path):
        self.call("Page.navigate", url=f"file://{path}")
        while self.receive().get("method") != "Page.loadEventFired":
            pass

    def ask(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y):
        self.mouse("mousePressed", x, y, button="left", clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)

    def key(self, key):
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def picture(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))
