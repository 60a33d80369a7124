#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
"""Loads pages in a headless Chromium and says what is wrong with them.

check_page.py [--shots FOLDER] [--chromium PATH] URL...

Needs Debian's package chromium and nothing but Python's standard library: it speaks the DevTools protocol over a pipe, so no port is open.
It loads each page at three widths in both themes, once without JavaScript, and saves screenshots.
Exits with 1 and a line for each fault, with 2 if Chromium cannot be driven.
"""
import argparse, base64, collections, fcntl, json, os, pathlib, select, shutil, signal, subprocess, sys, tempfile, time
from urllib.parse import urlsplit

WIDTHS, HEIGHT = (360, 800, 1440), 900


class Broken(Exception):
    """Chromium cannot be driven."""


class Chromium:
    """A headless Chromium. Messages are JSON objects, each followed by a NUL, on its file descriptors 3 and 4."""

    FLAGS = ["--headless=new", "--remote-debugging-pipe", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--no-default-browser-check",
             "--disable-extensions", "--disable-sync", "--disable-background-networking", "--disable-component-update", "--disable-default-apps",
             "--metrics-recording-only", "--mute-audio", "--password-store=basic", "--force-color-profile=srgb", "--no-proxy-server"]

    def __init__(self, path):
        self.folder = tempfile.mkdtemp(prefix="check-page-")
        (theirs_in, ours_out), (ours_in, theirs_out) = self.pipe(), self.pipe()

        def place():
            os.dup2(theirs_in, 3)
            os.dup2(theirs_out, 4)

        # Chromium's sandbox refuses to work for root.
        flags = self.FLAGS + (["--no-sandbox"] if os.geteuid() == 0 else []) + [f"--user-data-dir={self.folder}"]
        self.log = open(os.path.join(self.folder, "stderr"), "w+b")
        self.process = subprocess.Popen([path, *flags, "about:blank"], preexec_fn=place, close_fds=False, stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=self.log, start_new_session=True)
        os.close(theirs_in), os.close(theirs_out)
        self.input, self.output, self.buffer = ours_in, ours_out, b""
        self.number, self.events = 0, collections.deque()

    @staticmethod
    def pipe():
        # Above 9, so that placing them on 3 and 4 overwrites neither.
        ends = os.pipe()
        high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
        for end in ends: os.close(end)
        return high

    def read(self, deadline):
        """The next message, or None at the deadline."""
        while b"\0" not in self.buffer:
            if not select.select([self.input], [], [], max(deadline - time.monotonic(), 0))[0]: return None
            more = os.read(self.input, 1 << 20)
            if not more:
                self.log.seek(0)
                raise Broken("Chromium ended. It said:\n" + self.log.read().decode(errors="replace")[-2000:])
            self.buffer += more
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, patience=30, **parameters):
        self.number += 1
        number, message = self.number, {"id": self.number, "method": method, "params": parameters}
        if session: message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data: data = data[os.write(self.output, data):]
        deadline = time.monotonic() + patience
        while (answer := self.read(deadline)) is not None:
            if answer.get("id") == number:
                if "error" in answer: raise Broken(f"{method}: {answer['error']['message']}")
                return answer["result"]
            if "method" in answer: self.events.append(answer)
        raise Broken(f"{method}: no answer within {patience} s")

    def wait(self, session, method, patience=30):
        """Reads events until one has this name. All of them stay in `events`."""
        deadline = time.monotonic() + patience
        if any(e["method"] == method and e.get("sessionId") == session for e in self.events): return
        while (event := self.read(deadline)) is not None:
            if "method" in event: self.events.append(event)
            if event.get("method") == method and event.get("sessionId") == session: return
        raise Broken(f"no {method} within {patience} s")

    def listen(self, seconds):
        """Keeps the events of so many seconds."""
        deadline = time.monotonic() + seconds
        while (event := self.read(deadline)) is not None:
            if "method" in event: self.events.append(event)

    def tab(self):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Audits"): self.call(domain + ".enable", session)
        return target, session

    def evaluate(self, session, script):
        result = self.call("Runtime.evaluate", session, expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result: raise Broken("a script of the check failed: " + json.dumps(result["exceptionDetails"])[:600])
        return result["result"].get("value")

    def close(self):
        try: os.killpg(self.process.pid, signal.SIGTERM)
        except ProcessLookupError: pass
        try: self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self.input), os.close(self.output), self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


# Runs in the page. Returns a list of faults.
EXAMINE = r"""
(() => {
  const faults = [];
  const name = (el) => {
    const mark = el.id ? "#" + el.id : el.classList.length ? "." + [...el.classList].join(".") : "";
    const near = el.closest("section[id], header, main");
    return `<${el.localName}${mark}>` + (near && near !== el ? ` in ${near.id ? "#" + near.id : near.localName}` : "");
  };
  const short = (text) => { const line = text.trim().replace(/\s+/g, " "); return line.length > 50 ? line.slice(0, 50) + "…" : line; };

  // What is clipped away is for screen readers.
  const visible = (el) => {
    if (!el.checkVisibility({ checkVisibilityCSS: true })) return false;
    for (let at = el; at; at = at.parentElement) if (getComputedStyle(at).clipPath !== "none") return false;
    return true;
  };

  // Overflow
  const root = document.documentElement, wide = Math.max(root.scrollWidth, document.body.scrollWidth);
  if (wide > root.clientWidth) {
    const guilty = [...document.body.querySelectorAll("*")].filter((el) => el.getBoundingClientRect().right > root.clientWidth + 1).slice(0, 3);
    faults.push(`the page is ${wide} px wide in a window of ${root.clientWidth} px: ${guilty.map(name).join(", ")}`);
  }

  // Text that runs out of its box, and then over other text
  for (const el of document.body.querySelectorAll("*")) {
    const style = getComputedStyle(el);
    if (el.closest("svg") || style.display === "inline" || style.display === "contents" || style.overflow !== "visible" || !el.clientHeight || !el.textContent.trim() || !visible(el)) continue;
    const by = Math.max(el.scrollHeight - el.clientHeight, el.scrollWidth - el.clientWidth);
    if (by > 2) faults.push(`the content of ${name(el)} runs ${by} px out of its box: “${short(el.textContent)}”`);
  }

  // Contrast
  const context = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const rgba = (color) => {
    if (!known.has(color)) {
      context.clearRect(0, 0, 1, 1);
      context.fillStyle = color;
      context.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
      known.set(color, [r, g, b, a / 255]);
    }
    return known.get(color);
  };
  const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
  const canvas = matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18, 1] : [255, 255, 255, 1];
  const background = (el) => {
    const layers = [];
    for (let at = el; at; at = at.parentElement) {
      const style = getComputedStyle(at);
      if (style.backgroundImage !== "none") faults.push(`${name(at)} has a background image, so its contrast is unknown`);
      const layer = rgba(style.backgroundColor);
      layers.push(layer);
      if (layer[3] === 1) break;
    }
    return layers.reduceRight((under, layer) => over(layer, under), canvas);
  };
  const luminance = (color) => {
    const [r, g, b] = color.map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => { const [x, y] = [luminance(a), luminance(b)].sort((m, n) => n - m); return (x + 0.05) / (y + 0.05); };
  const opacity = (el) => { let all = 1; for (let at = el; at; at = at.parentElement) all *= Number(getComputedStyle(at).opacity); return all; };
  const judge = (el, color, least, what) => {
    const under = background(el), ink = rgba(color).slice();
    ink[3] *= opacity(el);
    const ratio = contrast(over(ink, under), under);
    if (ratio < least) faults.push(`contrast ${ratio.toFixed(2)}:1 is below ${least}:1: ${what} in ${name(el)}`);
    return ratio;
  };
  let lowest = 99, texts = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const el = walker.currentNode.parentElement, text = walker.currentNode.data;
    if (!text.trim() || ["script", "style", "title"].includes(el.localName)) continue;
    if (!visible(el)) continue;
    const style = getComputedStyle(el), size = parseFloat(style.fontSize);
    if (size < 12) faults.push(`text of ${size} px is too small: “${short(text)}” in ${name(el)}`);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    lowest = Math.min(lowest, judge(el, el.closest("svg") ? style.fill : style.color, large ? 3 : 4.5, `“${short(text)}”`));
    texts += 1;
  }
  for (const el of document.querySelectorAll("svg *")) {
    const style = getComputedStyle(el);
    for (const paint of [style.stroke, style.fill]) if (paint !== "none" && visible(el)) judge(el.closest("svg"), paint, 3, "a drawing");
  }
  for (const el of document.querySelectorAll("[data-label]")) {
    const before = getComputedStyle(el, "::before");
    if (before.content !== "none") judge(el, before.color, 4.5, `the label ${before.content}`);
  }

  // Structure
  const spoken = (el) => {
    const by = el.getAttribute("aria-labelledby");
    if (by) return by.split(/\s+/).map((id) => document.getElementById(id)?.textContent ?? "").join(" ").trim();
    return (el.getAttribute("aria-label") || [...(el.labels ?? [])].map((l) => l.textContent).join(" ") || el.textContent || el.getAttribute("alt") || "").trim();
  };
  if (!root.lang) faults.push("<html> has no lang");
  if (!document.title.trim()) faults.push("the page has no title");
  for (const meta of ["viewport", "color-scheme"]) if (!document.querySelector(`meta[name="${meta}"]`)) faults.push(`meta ${meta} is missing`);
  if (document.querySelectorAll("main").length !== 1) faults.push("the page needs exactly one <main>");
  if (document.querySelectorAll("h1").length !== 1) faults.push("the page needs exactly one <h1>");
  let level = 0;
  for (const h of document.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
    const now = Number(h.localName[1]);
    if (now > level + 1) faults.push(`${name(h)} “${short(h.textContent)}” skips a level of headings`);
    level = now;
  }
  for (const table of document.querySelectorAll("table")) {
    if (!table.caption?.textContent.trim()) faults.push(`${name(table)} has no caption`);
    const heads = [...table.querySelectorAll("th")];
    if (!table.tHead || !heads.some((th) => th.scope === "col")) faults.push(`${name(table)} has no column headers`);
    for (const th of heads) {
      if (!th.scope) faults.push(`a header of ${name(table)} has no scope: “${short(th.textContent)}”`);
      if (!th.textContent.trim()) faults.push(`a header of ${name(table)} is empty`);
    }
    for (const row of table.querySelectorAll("tbody tr")) if (!row.querySelector("th")) faults.push(`a row of ${name(table)} has no header: “${short(row.textContent)}”`);
    for (const part of [table, ...table.querySelectorAll("thead, tbody, tr, th, td")]) {
      if (!/^table|^inline-table/.test(getComputedStyle(part).display) && !part.hasAttribute("role")) { faults.push(`${name(part)} is not displayed as a table and has no role`); break; }
    }
  }
  for (const el of document.querySelectorAll("section, nav, article")) if (!el.getAttribute("aria-label") && !el.getAttribute("aria-labelledby")) faults.push(`${name(el)} has no name`);
  for (const el of document.querySelectorAll("[aria-labelledby], [aria-describedby]"))
    for (const id of (el.getAttribute("aria-labelledby") ?? el.getAttribute("aria-describedby")).split(/\s+/))
      if (!document.getElementById(id)) faults.push(`${name(el)} names the missing #${id}`);
  for (const svg of document.querySelectorAll("svg")) if (svg.getAttribute("aria-hidden") !== "true" && !(svg.getAttribute("role") === "img" && spoken(svg))) faults.push(`${name(svg)} has no text alternative`);
  for (const img of document.querySelectorAll("img")) if (!img.hasAttribute("alt")) faults.push(`${name(img)} has no alt`);
  const ids = new Set();
  for (const el of document.querySelectorAll("[id]")) { if (ids.has(el.id)) faults.push(`the id ${el.id} is there twice`); ids.add(el.id); }
  for (const el of document.querySelectorAll("*")) for (const a of el.getAttributeNames()) if (a === "style" || a.startsWith("on")) faults.push(`${name(el)} has the attribute ${a}, which the policy forbids`);
  for (const el of document.querySelectorAll("dl")) for (const child of el.children) {
    const parts = child.localName === "div" ? [...child.children] : [child];
    if (parts.some((p) => !["dt", "dd"].includes(p.localName)) || (child.localName === "div" && !["dt", "dd"].every((p) => child.querySelector(p)))) faults.push(`${name(el)} has something other than dt and dd`);
  }
  for (const el of document.querySelectorAll("time")) if (!/^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(el.dateTime)) faults.push(`${name(el)} has the datetime “${el.dateTime}”`);

  // Interactive elements
  const interactive = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")];
  const active = document.activeElement;
  for (const el of interactive) {
    if (!spoken(el)) faults.push(`${name(el)} has no label`);
    if (el.localName === "a" && el.getAttribute("href").startsWith("#") && !document.getElementById(el.getAttribute("href").slice(1))) faults.push(`${name(el)} leads nowhere`);
    if (!visible(el)) continue;
    const box = el.getBoundingClientRect();
    if ((box.height < 24 || box.width < 24) && !el.closest("p")) faults.push(`${name(el)} is ${Math.round(box.width)} × ${Math.round(box.height)} px, less than 24 × 24`);
    el.focus({ preventScroll: true });
    const style = getComputedStyle(el);
    if (!el.matches(":focus-visible") || style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 2) faults.push(`${name(el)} shows no focus`);
    else judge(el.parentElement, style.outlineColor, 3, "the focus ring");
  }
  active?.focus?.(); document.activeElement.blur();
  return { faults: [...new Set(faults)], texts, lowest: lowest.toFixed(2), interactive: interactive.length, text: document.querySelector("main")?.innerText.length ?? 0 };
})()
"""


def complaints(events, session, origin):
    """What the console said, and what was requested from elsewhere."""
    faults, requests = [], 0
    for event in events:
        if event.get("sessionId") != session: continue
        method, p = event["method"], event["params"]
        if method == "Runtime.consoleAPICalled" and p["type"] in ("error", "warning", "assert"):
            faults.append(f"console {p['type']}: " + " ".join(str(a.get("value", a.get("description", ""))) for a in p["args"]))
        elif method == "Runtime.exceptionThrown":
            detail = p["exceptionDetails"]
            faults.append("exception: " + detail.get("exception", {}).get("description", detail["text"]))
        elif method == "Log.entryAdded" and p["entry"]["level"] in ("error", "warning"):
            faults.append(f"console {p['entry']['level']}: {p['entry']['text']} {p['entry'].get('url', '')}".rstrip())
        elif method == "Audits.issueAdded":
            faults.append(f"issue {p['issue']['code']}: {json.dumps(p['issue']['details'])[:300]}")
        elif method == "Network.requestWillBeSent":
            requests += 1
            url = urlsplit(p["request"]["url"])
            if f"{url.scheme}://{url.netloc}" != origin: faults.append(f"a request to {p['request']['url'][:200]}, which is not {origin}")
        elif method == "Network.responseReceived" and p["response"]["status"] >= 400:
            faults.append(f"{p['response']['status']} for {p['response']['url']}")
        elif method == "Network.loadingFailed":
            faults.append(f"a request failed: {p['errorText']} {p.get('blockedReason', '')}".rstrip())
    return faults, requests


def load(browser, url, width, theme, scripts):
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(url))
    target, session = browser.tab()
    browser.call("Emulation.setDeviceMetricsOverride", session, width=width, height=HEIGHT, deviceScaleFactor=1, mobile=False)
    browser.call("Emulation.setEmulatedMedia", session, media="screen", features=[{"name": "prefers-color-scheme", "value": theme}])
    browser.call("Emulation.setFocusEmulationEnabled", session, enabled=True)
    if not scripts: browser.call("Emulation.setScriptExecutionDisabled", session, value=True)
    browser.events.clear()
    answer = browser.call("Page.navigate", session, url=url)
    if "errorText" in answer: raise Broken(f"{url}: {answer['errorText']}")
    browser.wait(session, "Page.loadEventFired")
    return target, session, origin


def screenshot(browser, session, path):
    image = browser.call("Page.captureScreenshot", session, format="png", captureBeyondViewport=True)["data"]
    path.write_bytes(base64.b64decode(image))


def check(browser, url, shots):
    faults, summary = [], []
    stem = pathlib.PurePath(urlsplit(url).path).stem or "index"
    for theme in ("light", "dark"):
        for width in WIDTHS:
            target, session, origin = load(browser, url, width, theme, scripts=True)
            browser.listen(0.3)
            found = browser.evaluate(session, EXAMINE)
            here = found["faults"]
            browser.evaluate(session, "document.querySelectorAll('details').forEach((d) => { d.open = true })")
            here += browser.evaluate(session, EXAMINE)["faults"]
            browser.evaluate(session, "document.querySelectorAll('details').forEach((d) => { d.open = false }); scrollTo(0, 0)")
            screenshot(browser, session, shots / f"{stem}-{width}-{theme}.png")
            said, requests = complaints(browser.events, session, origin)
            faults += [f"{url} at {width} px, {theme}: {fault}" for fault in dict.fromkeys(here + said)]
            summary.append(f"{url} at {width} px, {theme}: {found['texts']} texts, lowest contrast {found['lowest']}:1, "
                           f"{found['interactive']} interactive elements, {requests} requests")
            browser.call("Target.closeTarget", targetId=target)
    # Without JavaScript, which the check itself still may use.
    target, session, origin = load(browser, url, WIDTHS[0], "light", scripts=False)
    tree = browser.call("Accessibility.getFullAXTree", session)["nodes"]
    words = sum(len(str(node.get("name", {}).get("value", "")).split()) for node in tree if node.get("role", {}).get("value") == "StaticText")
    if words < 50: faults.append(f"{url} without JavaScript: it has {words} words only")
    said, _ = complaints(browser.events, session, origin)
    faults += [f"{url} without JavaScript: {fault}" for fault in said]
    summary.append(f"{url} without JavaScript: {words} words")
    browser.call("Target.closeTarget", targetId=target)
    return faults, summary


def main():
    parser = argparse.ArgumentParser(description="Checks pages in a headless Chromium.")
    parser.add_argument("urls", nargs="+", metavar="URL")
    parser.add_argument("--shots", type=pathlib.Path, default=pathlib.Path("shots"), help="the folder for the screenshots")
    parser.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("chromium-browser"))
    options = parser.parse_args()
    if not options.chromium: sys.exit("check_page: Chromium is missing: apt-get install chromium")
    options.shots.mkdir(parents=True, exist_ok=True)
    faults, browser = [], Chromium(options.chromium)
    try:
        for url in options.urls:
            found, summary = check(browser, url, options.shots)
            faults += found
            print("\n".join(summary), flush=True)
    except Broken as broken:
        print(f"check_page: {broken}", file=sys.stderr)
        return 2
    finally:
        browser.close()
    for fault in faults: print(f"FAULT {fault}", file=sys.stderr)
    print(f"{len(faults)} faults" if faults else "no fault")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
