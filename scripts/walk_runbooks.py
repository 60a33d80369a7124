#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
"""Breaks a siwatch for each alert, and compares the rule, the page and the runbook with what siwatch then says.

walk_runbooks.py [--siwatch FILE] [--simulator FILE] [--jobs N] [--only NAME]... [--verbose] [--list]

A walk runs a real siwatch against a simulated Apple on loopback, breaks something, and waits for it on /metrics. Then
  - promtool reads the rules over the real scrapes and says which alerts fire. Not real is the time between them: the last scrape stands for
    as long as the rule waits, and times in metrics move along;
  - `siwatch status`, `siwatch status --json`, the page, /readyz and the log must say what the walk names;
  - each quotation of the walk must stand in the section of docs/alerts.md, in italics or as code, and siwatch must say it;
  - the alert's finding must have the severity of the alert: a page is `down`, a ticket is `degraded`;
  - no alert with severity page may fire that the walk does not name;
  - where the walk takes the runbook's remedy, the findings must go and siwatch must be ready.
A cause of an alert that is neither walked nor listed in NOT_WALKED is a failure. Ends with 1 after any failure.

Needs promtool, PostgreSQL's server and a C compiler (scripts/setup.sh brings the first two), and root for the full disk. Under root, siwatch
runs as nobody.
"""
import argparse, collections, concurrent.futures, contextlib, http.server, json, math, os, pathlib, pwd, re, shutil, signal, socket, sqlite3
import subprocess, sys, tempfile, threading, time, traceback, urllib.error, urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
RULES = ROOT / "etc/prometheus/siwatch.rules.yml"
RUNBOOKS = ROOT / "docs/alerts.md"
CLOCK = ROOT / "Tests/SiwatchTests/Support/SteppedClock.swift"
INSTANCE = "a:9464"
MINUTE, HOUR, DAY = 60, 3600, 86400

# Causes of alerts that cannot be raised within minutes, and why.
NOT_WALKED = {
    ("SiwatchDeliveryRefused", "dead"): "a change is dead after three days; DeliveryTests counts the tries",
}

# Words in italics that no walk compares, and why.
NOT_COMPARED = {
    "SiwatchAppPaused": {text: "a question about a key pauses nothing: see KeyTrialTests" for text in ("Apple does not accept", "with the key")},
    "SiwatchNotReady": {
        "The HTTP door finds no database": "HTTPDoorTroubleTests has it; other words of the page come first",
        "Siwatch runs and cannot be asked": "DaemonWordsTests has it: no socket and no address answers",
    },
    "SiwatchStoreErrors": {
        "busy": "SQLite's word for a lock, which siwatch mostly puts as locked", "I/O": "needs a disk that fails",
        "malformed": "a damaged file may say anything, or nothing",
        "siwatch's own commits take longer than 5000 ms": "the walk's disk is slow, and no commit takes five seconds",
    },
    "SiwatchDeliveryRefused": {text: "a change is dead after three days" for text in ("has not taken", "for days")},
    "SiwatchBackupOld": {
        "Was written and is damaged": "needs a disk that fails", "has never written a copy": "FindingTests has it, after two days",
        "No whole copy, so it does not count": "CommandTests has it, with copies of an older siwatch",
    },
    "SiwatchNotificationsLate": {"what Apple posts does not arrive": "FindingTests has it, after two looks"},
}


class Failed(Exception):
    """A walk did not go as it should."""


def until(what, look, limit=60, pause=0.1):
    """The first true answer of `look`. Looks again and again, and gives up after `limit` seconds."""
    end = time.monotonic() + limit
    while True:
        answer = look()
        if answer:
            return answer
        if time.monotonic() > end:
            raise Failed(f"not within {limit} s: {what}")
        time.sleep(pause)


# MARK: Scrapes, rules and runbooks

SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\]|\\.)*",?)*)\})? (\S+)(?: -?\d+)?')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


class Scrape:
    """An answer of /metrics, and when it came by siwatch's clock."""

    def __init__(self, text, at):
        self.at = at
        # By name and the text of the labels. Prometheus's expressions escape a label's value as its text format does.
        self.samples = {}
        for line in text.splitlines():
            if not line or line.startswith("#"):
                continue
            match = SAMPLE.fullmatch(line)
            if not match:
                raise Failed(f"/metrics has a line that is no sample: {line}")
            self.samples[match[1], (match[2] or "").rstrip(",")] = float(match[3])

    def value(self, name, **labels):
        """The sum of the series with these labels; None if there is none."""
        wanted = set(labels.items())
        found = [v for (n, text), v in self.samples.items() if n == "siwatch_" + name and wanted <= set(LABEL.findall(text))]
        return sum(found) if found else None


def number(value):
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else f"{value:.9f}".rstrip("0").rstrip(".")


class Rule(collections.namedtuple("Rule", "alert severity wait causes")):
    """An alert of the rules; `wait` is its `for:` in seconds, and `causes` are what its label `cause` or `queue` may say, or None alone."""


def read_rules():
    rules = {}
    alert = None
    units = {"s": 1, "m": MINUTE, "h": HOUR, "d": DAY}
    for line in RULES.read_text().splitlines():
        if match := re.match(r"\s*- alert: (\w+)", line):
            alert = match[1]
            rules[alert] = Rule(alert, None, 0, (None,))
        elif match := re.match(r"\s*for: (\d+)([smhd])$", line):
            rules[alert] = rules[alert]._replace(wait=int(match[1]) * units[match[2]])
        elif match := re.match(r"\s*severity: (\w+)$", line):
            rules[alert] = rules[alert]._replace(severity=match[1])
        elif match := re.search(r', "(?:cause|queue)", "([^"]+)", "", ""', line):
            rules[alert] = rules[alert]._replace(causes=(*filter(None, rules[alert].causes), match[1]))
    return rules


def read_runbooks():
    """The text of each section, with single spaces, and its SQL for a file and for a server."""
    sections, sql = {}, {}
    for part in re.split(r"(?m)^## ", RUNBOOKS.read_text())[1:]:
        name, text = part.split("\n", 1)
        sections[name] = " ".join(re.sub(r"```.*?```", "", text, flags=re.S).split())
        of_file, of_server = [], []
        for begins, block in [(m.start(), m[1]) for m in re.finditer(r"```sql\n(.*?)```", text, re.S)]:
            is_servers = "-- On PostgreSQL" in block or "**On PostgreSQL:**" in text[:begins]
            (of_server if is_servers else of_file).append(block)
        sql[name] = of_file, of_server
    return sections, sql


class Timeline:
    """Scrapes at equal steps of time, for promtool.

    Time begins at 0 there. So times in metrics are moved: the moment of the last scrape is the step at which it stands first.
    """

    def __init__(self, frames, step=1, lead=15, more=2, grows=False):
        """Frames are (scrapes by instance, steps).

        - step: in minutes.
        - lead: for how many steps at least the first scrape stands.
        - more: for how many steps the last one stands beyond the `for:` of the rule.
        - grows: counters go on as between the last two.
        """
        (first, steps), rest = frames[0], frames[1:] or frames
        self.frames = [(first, max(steps, lead))] + rest
        self.step, self.more, self.grows = step, more, grows

    def series(self, wait):
        """The input series, and the minute at which an alert that waits so many seconds fires."""
        frames = list(self.frames)
        last, steps = frames[-1]
        began = sum(n for _, n in frames[:-1])
        extension = math.ceil(wait / 60 / self.step) + self.more
        frames[-1] = (last, steps + extension)
        names = {}
        length = sum(n for _, n in frames)
        place = 0
        latest = max((s.at for frame, _ in frames for s in frame.values() if s), default=0)
        origin = latest - began * self.step * 60
        before = frames[-2][0] if len(frames) > 1 else {}
        for index, (frame, steps) in enumerate(frames):
            for instance, scrape in frame.items():
                up = names.setdefault(f'up{{job="siwatch",instance="{instance}"}}', [None] * length)
                up[place:place + steps] = [1.0 if scrape else 0.0] * steps
                for (name, labels), value in (scrape.samples.items() if scrape else ()):
                    if value > 0 and name.endswith("_timestamp_seconds") or name == "process_start_time_seconds":
                        value -= origin
                        if value <= 0:
                            raise Failed(f"{name} is {-value:.0f} s before the time of the test: a longer lead is needed")
                    key = name + "{" + ",".join(filter(None, ['job="siwatch"', f'instance="{instance}"', labels])) + "}"
                    growth = 0
                    if self.grows and index == len(frames) - 1 and before.get(instance) and re.search("_(total|bucket|count|sum)$", name):
                        growth = max(value - before[instance].samples.get((name, labels), 0), 0)
                    values = names.setdefault(key, [None] * length)
                    values[place:place + steps] = [value + growth * i for i in range(steps)]
            place += steps
        written = [{"series": key, "values": self.text(values)} for key, values in names.items()]
        return written, (length - 1) * self.step

    @staticmethod
    def text(values):
        """In promtool's notation, equal neighbours together."""
        parts, i = [], 0
        while i < len(values):
            j = i
            while j < len(values) and values[j] == values[i]:
                j += 1
            if values[i] is None:
                parts.append("_" if j - i == 1 else f"_x{j - i}")
            else:
                parts.append(number(values[i]) + (f"x{j - i - 1}" if j - i > 1 else ""))
            i = j
        return " ".join(parts)

    def firing(self, promtool, wait, folder):
        """The alerts that fire at the end, each with what its label `cause` or `queue` says."""
        series, minutes = self.series(wait)
        test = {
            "rule_files": [str(RULES)],
            "evaluation_interval": f"{self.step}m",
            "tests": [{
                "interval": f"{self.step}m",
                "input_series": series,
                "promql_expr_test": [{"expr": 'ALERTS{alertstate="firing"}', "eval_time": f"{minutes}m",
                                      "exp_samples": [{"labels": "none", "value": 1}]}],
            }],
        }
        file = folder / "promtool.json"
        file.write_text(json.dumps(test, indent=1))
        done = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True)
        said = done.stdout + done.stderr
        # The expected sample never comes, so promtool prints those that did.
        if "got:" not in said:
            raise Failed(f"promtool: {said}")
        series = re.findall(r'alertname=\\?"(\w+)\\?"([^}]*)', said.split("got:", 1)[1])
        causes = ((alert, re.search(r'(?:cause|queue)=\\?"([^"\\]+)', labels)) for alert, labels in series)
        return {(alert, cause and cause[1]) for alert, cause in causes}


# MARK: A siwatch, its Apple and its backend

class Account:
    """The user that siwatch runs as: nobody, if root runs this."""

    def __init__(self):
        self.changes = os.geteuid() == 0
        name = pwd.getpwnam("nobody") if self.changes else pwd.getpwuid(os.geteuid())
        self.name, self.uid, self.gid = name.pw_name, name.pw_uid, name.pw_gid

    @property
    def options(self):
        return {"user": self.uid, "group": self.gid, "extra_groups": []} if self.changes else {}

    def own(self, path):
        if self.changes:
            os.chown(path, self.uid, self.gid)


class Answer(collections.namedtuple("Answer", "code text")):
    """What an HTTP request or a command has brought; a code of None is no answer."""


class Tools(collections.namedtuple("Tools", "siwatch simulator promtool clock slow_disk account")):
    """The programs, and the libraries between siwatch and the system."""


def fetch(url, body=None, method=None, accept="text/plain", headers=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, method=method, headers={"Accept": accept, **(headers or {})})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=10) as answer:
            return Answer(answer.status, answer.read().decode())
    except urllib.error.HTTPError as error:
        return Answer(error.code, error.read().decode())
    except OSError as error:
        return Answer(None, str(error))


class Daemon:
    """A process of siwatch. Its log has one line of text for each event.

    - until_event: the event of the log that ends the wait for the start.
    """

    def __init__(self, scene, name="siwatch", wrap=(), until_event="ready"):
        self.scene, self.log_file = scene, scene.folder / f"{name}.log"
        self.configuration = scene.folder / f"{name}.toml"
        self.offset = self.log_file.stat().st_size if self.log_file.exists() else 0
        self.process = scene.spawn(
            [*wrap, scene.tools.siwatch, "run", "--config", str(self.configuration)], stderr=open(self.log_file, "a"), environment=scene.environment
        )
        until(f"siwatch logs {until_event}", lambda: self.says(f"event={until_event}") or self.ended())
        address = re.search(r"event=listening.* address=(\S+)", self.log)
        self.url = f"http://{address[1]}"

    @property
    def log(self):
        with open(self.log_file) as file:
            file.seek(self.offset)
            return file.read()

    def says(self, pattern):
        return re.search(pattern, self.log)

    def ended(self):
        if self.process.poll() is not None:
            raise Failed(f"siwatch ended with {self.process.returncode}: {self.log[-600:]}")

    def scrape(self):
        answer = fetch(self.url + "/metrics")
        if answer.code != 200:
            raise Failed(f"/metrics: {answer}")
        return Scrape(answer.text, time.time() + self.scene.ahead)

    def scraped(self, what, condition, limit=60):
        """The first scrape that meets a condition."""
        def look():
            try:
                scrape = self.scrape()
            except Failed:
                return None
            return scrape if condition(scrape) else None
        return until(what, look, limit)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


class Scene:
    """A folder with a configuration, a simulated Apple, and a backend; the stage of one walk."""

    def __init__(self, tools):
        self.tools = tools
        self.ending = contextlib.ExitStack()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="siwatch-walk-", dir="/tmp"))
        self.ending.callback(shutil.rmtree, self.folder, True)
        tools.account.own(self.folder)
        os.chmod(self.folder, 0o2770)
        # siwatch status asks only where nobody else can answer.
        self.private = self.folder / "run"
        self.private.mkdir(0o700)
        tools.account.own(self.private)
        self.ahead, self.clock_file, self.daemon, self.environment, self.server = 0, None, None, {}, None
        # Further commands of siwatch that the runbook sends an operator to.
        self.commands, self.overheard = [], ""
        # The runbook's remedy, if a walk takes it.
        self.mend = None
        self.data = self.folder

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ending.close()

    @property
    def database(self):
        return self.data / "siwatch.sqlite"

    def spawn(self, command, environment=None, as_siwatch=True, **options):
        # Another host's settings would lead siwatch elsewhere.
        clean = {k: v for k, v in os.environ.items() if not k.startswith("PG") and k != "SIWATCH_CONFIG"}
        process = subprocess.Popen(
            command, cwd=self.folder, stdin=options.pop("stdin", subprocess.DEVNULL), stdout=options.pop("stdout", subprocess.DEVNULL),
            env={**clean, **(environment or {})}, umask=0o007, **(self.tools.account.options if as_siwatch else {}), **options
        )

        def end():
            if process.poll() is None:
                process.kill()
            process.wait()
        self.ending.callback(end)
        return process

    def run(self, *arguments):
        """A command of siwatch."""
        process = self.spawn([self.tools.siwatch, *arguments, "--config", str(self.folder / "siwatch.toml")], self.environment,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            said, _ = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            raise Failed(f"siwatch {arguments[0]} does not end")
        return Answer(process.returncode, said)

    # Time

    def use_clock(self):
        """Lets siwatch's clock be stepped: the wall clock alone, not its timers."""
        self.clock_file = self.folder / "clock"
        self.clock_file.write_bytes(bytes(8))
        self.tools.account.own(self.clock_file)
        self.environment = {"LD_PRELOAD": self.tools.clock, "SIWATCH_CLOCK_AHEAD": str(self.clock_file)}

    def use_slow_disk(self):
        """Lets the disk be slow: a flush takes seconds while the returned file exists."""
        slow = self.folder / "slow"
        self.environment = {"LD_PRELOAD": self.tools.slow_disk, "SIWATCH_SLOW_DISK": str(slow)}
        return slow

    def travel(self, seconds, with_apple=True):
        """Steps siwatch's clock, and Apple's."""
        self.ahead += seconds
        if with_apple:
            self.apple("PUT", "clock", {"offset_ms": self.ahead * 1000})
        with open(self.clock_file, "r+b") as file:
            file.write(self.ahead.to_bytes(8, "little", signed=True))

    # Programs

    def set_up(self, tables=None, app="", simulator=(), url=None, replicas=()):
        """Starts the simulated Apple, writes the configuration and migrates.

        - tables: further TOML, by table.
        - app: further lines of [[app]].
        """
        printed = self.folder / "printed.toml"
        with open(printed, "w") as out:
            self.simulator = self.spawn([self.tools.simulator, "--print-config", *simulator], stdout=out, stderr=open(self.folder / "apple.log", "w"))
        until("the simulated Apple listens", lambda: "keys_endpoint" in printed.read_text())
        text = printed.read_text()
        self.apple_url = re.search(r"listening on (\S+)", text)[1]
        text = text.replace("\nclient_ids", f"\n{app}\nclient_ids", 1)
        text = re.sub(r"(?m)^path = .*$", f'url = "{url}"' if url else f'path = "{self.database}"', text)
        for table, lines in {"queues": 'poll_interval = "1s"', "log": 'format = "text"\nlevel = "info"', **(tables or {})}.items():
            text += f"\n[{table}]\n{lines}\n"
        for name in ["siwatch", *replicas]:
            self.write(f"{name}.toml", text + f'\n[operations]\nlisten = "127.0.0.1:0"\nsocket = "{self.private}/{name}.sock"\n')
        self.must("migrate")
        return self

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        self.tools.account.own(path)
        os.chmod(path, 0o600)

    def must(self, *arguments):
        done = self.run(*arguments)
        if done.code != 0:
            raise Failed(f"siwatch {' '.join(arguments)} ended with {done.code}: {done.text}")
        return done.text

    def start(self, **options):
        self.daemon = Daemon(self, **options)
        return self.daemon

    def begin(self, tables=None, **options):
        """Sets up, starts siwatch and returns it."""
        self.set_up(tables, **options)
        return self.start()

    # Apple

    def apple(self, method, path, body=None):
        answer = fetch(f"{self.apple_url}/simulator/{path}", body, method, "application/json")
        if answer.code is None or answer.code >= 300:
            raise Failed(f"the simulated Apple refuses {method} {path}: {answer.text}")
        return json.loads(answer.text or "{}")

    def fault(self, **fault):
        return self.apple("POST", "faults", fault)

    def sign_ins(self, count, **options):
        return self.apple("POST", "users", {"count": count, **options})["sign_ins"]

    def notifications(self, route, **body):
        return [n["body"] for n in self.apple("POST", route, body)["notifications"]]

    # The backend

    def connect(self, timeout=10):
        """A connection of a backend. It ends with the scene."""
        connection = sqlite3.connect(self.database, timeout=timeout, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        self.ending.callback(connection.close)
        return connection

    def sql(self, statement, rows=None):
        connection = sqlite3.connect(self.database, timeout=10, isolation_level=None)
        try:
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            if rows is None:
                return connection.execute(statement).fetchall()
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(statement, rows)
            connection.execute("COMMIT")
        finally:
            connection.close()

    def one(self, statement):
        return self.sql(statement)[0][0]

    def insert(self, table, rows):
        names = list(rows[0])
        self.sql(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})", [[row[n] for n in names] for row in rows])

    def grant(self, sign_ins, **values):
        """Tells sign-ins by their tokens."""
        self.insert("grant_queue", [{**{k: s[k] for k in ("client_id", "user_id", "refresh_token", "granted_at")}, **values} for s in sign_ins])

    def tell_codes(self, sign_ins, **values):
        self.insert("grant_queue", [{"client_id": s["client_id"], "user_id": s["user_id"], "authorization_code": s["authorization_code"], **values}
                                    for s in sign_ins])

    def notify(self, bodies, **values):
        self.insert("notification_queue", [{"payload": body, **values} for body in bodies])

    def revoke(self, sign_ins, **values):
        self.insert("revocation_queue", [{"client_id": s["client_id"], "user_id": s["user_id"], **values} for s in sign_ins])

    def settled(self, *queues, limit=60):
        for queue in queues:
            until(f"{queue} is empty", lambda: self.one(f"SELECT COUNT(*) FROM {queue}") == 0, limit)

    def accepted(self, count, limit=60):
        """Waits until Apple has accepted the tokens of so many users."""
        until(f"Apple has accepted {count} tokens", lambda: self.one("SELECT COUNT(*) FROM credential WHERE verified_at IS NOT NULL") >= count, limit)

    def signed_in(self, count, **options):
        """Users with tokens that Apple has accepted."""
        people = self.sign_ins(count, **options)
        self.grant(people)
        self.accepted(self.one("SELECT COUNT(*) FROM credential WHERE verified_at IS NOT NULL") + count)
        return people

    def small_disk(self, size):
        """Puts the database on a disk of its own."""
        self.data = self.mount("disk", size)

    def empty_disk(self):
        for name in ("filler", "crumbs"):
            (self.data / name).unlink(missing_ok=True)

    def mount(self, name, size):
        if os.geteuid() != 0:
            raise Failed("only root can mount a small disk")
        place = self.folder / name
        place.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=2770", "tmpfs", str(place)], check=True)
        self.ending.callback(subprocess.run, ["umount", "--lazy", str(place)])
        self.tools.account.own(place)
        return place

    def fill_disk(self, place=None):
        place = place or self.data
        with open(place / "filler", "wb", 0) as file, contextlib.suppress(OSError):
            while file.write(bytes(1 << 14)):
                pass
        with open(place / "crumbs", "wb", 0) as file, contextlib.suppress(OSError):
            while file.write(bytes(1 << 10)):
                pass

    def hold_write_lock(self):
        """A forgotten BEGIN, in this process."""
        connection = self.connect()
        connection.execute("BEGIN IMMEDIATE")
        return connection


class Server:
    """A PostgreSQL server on a socket in the scene's folder."""

    def __init__(self, scene):
        programs = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3])) or [shutil.which("initdb")]
        if not programs[-1]:
            raise Failed("PostgreSQL's server is missing: run scripts/setup.sh postgres")
        self.programs, self.scene = pathlib.Path(programs[-1]).parent, scene
        scene.server = self
        done = scene.spawn([str(self.programs / "initdb"), "-D", "data", "-U", "siwatch", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"])
        if done.wait(120):
            raise Failed("initdb failed")
        self.url = f"postgresql://siwatch@/postgres?host={scene.folder}"
        self.start()

    def start(self):
        settings = [f"unix_socket_directories={self.scene.folder}", "listen_addresses=", "shared_buffers=32MB", "fsync=off", "autovacuum=off"]
        self.process = self.scene.spawn([str(self.programs / "postgres"), "-D", "data", *[x for s in settings for x in ("-c", s)]],
                                        stderr=open(self.scene.folder / "postgres.log", "a"))
        until("PostgreSQL answers", lambda: subprocess.run([str(self.programs / "psql"), "-qAt", "-c", "SELECT 1", self.address],
                                                           capture_output=True).returncode == 0)

    @property
    def address(self):
        return f"host={self.scene.folder} user=siwatch dbname=postgres"

    def take_down(self):
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(30)

    def sql(self, statement):
        done = subprocess.run([str(self.programs / "psql"), "-qAt", "-v", "ON_ERROR_STOP=1", "-c", f"SET search_path = siwatch; {statement}",
                               self.address], capture_output=True, text=True, env={**os.environ, "PGAPPNAME": "psql"})
        if done.returncode:
            raise Failed(f"psql: {done.stderr}")
        return done.stdout.strip()

    def hold(self, statement, role):
        """A session that has a transaction open."""
        session = self.scene.spawn([str(self.programs / "psql"), "-qAt", self.address.replace("user=siwatch", f"user={role}")],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        session.stdin.write(f"SET search_path = siwatch; BEGIN; {statement};\nSELECT 'held';\n")
        session.stdin.flush()
        until("the session holds", lambda: "held" in session.stdout.readline())
        return session


# MARK: Walks

class Walk:
    """How to raise an alert, and what is said then.

    - code: the exit code of `siwatch status`.
    - quotes: words of the runbook that siwatch says too, in italics or as code there. Three dots stand for anything.
    - says: further words of siwatch.
    - finding: whether a finding names this runbook. If not, the runbook cannot begin with a finding: the first quote is then of the log, of
      /readyz, or of what the runbook's SQL brings.
    - severity: of that finding; as the alert has it, if absent.
    - worst: the runbooks that the worst finding may name, if that is not this alert's.
    - readyz: its status; None if nobody answers.
    - beside: alerts that page as well.
    - sql: words in what the runbook's SQL brings.
    - cause: what the alert's label `cause` or `queue` says, where an alert has several.
    """

    def __init__(self, alert, body, variant="", code=None, quotes=(), says=(), finding=True, severity=None, worst=None, readyz=200,
                 beside=(), sql=None, cause=None):
        self.alert, self.body, self.variant = alert, body, variant
        self.name = alert + (f" ({', '.join(filter(None, [cause, variant]))})" if cause or variant else "")
        self.code, self.quotes, self.says, self.finding, self.severity = code, list(quotes), list(says), finding, severity
        self.worst, self.readyz, self.beside, self.sql, self.cause = worst, readyz, set(beside), sql, cause
        self.seconds, self.fired, self.mended = 0, set(), False


WALKS = []


def walk(alert, **options):
    def note(body):
        WALKS.append(Walk(alert, body, **options))
        return body
    return note


def one(*frames, **options):
    """The timeline of a single siwatch: scrapes, each a minute after the other; None is no answer."""
    return Timeline([({INSTANCE: scrape}, 1) for scrape in frames], **options)


def pattern(quote):
    return ".*?".join(re.escape(" ".join(part.split())) for part in quote.split("…"))


class Said:
    """All that siwatch says at one moment."""

    def __init__(self, scene, walk, sql):
        self.status = scene.run("status")
        self.json = scene.run("status", "--json")
        url = scene.daemon.url
        self.page, self.html, self.readyz = fetch(url), fetch(url, accept="text/html"), fetch(url + "/readyz")
        self.log = scene.daemon.log_file.read_text()
        self.metrics = fetch(url + "/metrics")
        self.heard = scene.overheard + "\n".join(scene.run(*command).text for command in scene.commands)
        self.rows = ""
        if walk.sql:
            if scene.server:
                self.rows = "\n".join(scene.server.sql(statement) for statement in sql[1])
            else:
                self.rows = "\n".join(" ".join(map(str, row)) for statement in sql[0] for row in scene.sql(statement))
        try:
            self.document = json.loads(self.json.text)
        except ValueError:
            self.document = {"health": None, "findings": []}

    def holds(self, quote):
        everything = "\n".join([self.status.text, self.readyz.text if self.readyz.code else "", self.log, self.metrics.text, self.rows, self.heard])
        return re.search(pattern(quote), " ".join(everything.split()), re.I) is not None

    def faults(self, walk, rule):
        anchor = walk.alert.lower()
        findings = self.document["findings"]
        named = [f for f in findings if f.get("runbook") == anchor]
        severity = severity_of(walk, rule)
        faults = []
        if walk.finding:
            if not any(f["severity"] == severity for f in named):
                faults.append(f"no finding of severity {severity} names the runbook {anchor}")
            if named and not any(re.search(pattern(walk.quotes[0]), f["sentence"], re.I) for f in named):
                faults.append(f"the finding does not say {walk.quotes[0]!r} but: {named[0]['sentence']}")
        elif named:
            faults.append(f"a finding names the runbook by now, so let the runbook begin with it: {named[0]['sentence']}")
        worst = findings[0] if findings and findings[0]["severity"] != "note" else None
        expected = walk.worst if walk.worst is not None else ({anchor} if walk.finding and severity != "note" else set())
        if worst and worst.get("runbook") not in expected:
            faults.append(f"the worst finding names {worst.get('runbook')}: {worst['sentence']}")
        if not worst and expected:
            faults.append("there is no finding above a note")
        code = walk.code if walk.code is not None else {"down": 2, "degraded": 1, "note": 0}[severity if walk.finding else "note"]
        if self.status.code != code:
            faults.append(f"status ends with {self.status.code} instead of {code}: {self.status.text[:400]}")
        if self.readyz.code != walk.readyz:
            faults.append(f"/readyz is {self.readyz.code} instead of {walk.readyz}: {self.readyz.text.strip()[:200]}")
        for words in walk.quotes + walk.says:
            if not self.holds(words):
                faults.append(f"siwatch does not say {words!r}")
        # The page lists the last warnings of the log.
        listed = {warning["event"] for warning in (self.document.get("daemon") or {}).get("warnings", [])}
        for event in re.findall(r"event=(\w+)", " ".join(walk.says)):
            if self.page.code and re.search(rf" (WARNING|ERROR) .* event={event}\b", self.log) and event not in listed:
                faults.append(f"the warnings of the page lack {event}")
        # The page says what status says.
        if self.page.code:
            for finding in findings:
                steady = re.split(r"\d", finding["sentence"])[0].strip()
                if steady not in self.page.text:
                    faults.append(f"the page does not say {finding['sentence']!r}")
        if walk.sql and not re.search(pattern(walk.sql), " ".join(self.rows.split())):
            faults.append(f"the runbook's SQL does not bring {walk.sql!r} but: {self.rows[:300]}")
        return faults


def read_faults(walk, section):
    """Quotations that are not in the runbook."""
    if section is None:
        return ["docs/alerts.md has no section of this alert"]
    # In italics, or as code.
    marked = [m.strip("`*").casefold() for m in re.findall(r"`[^`]+`|\*\*[^*]+\*\*|\*[^*]+\*", section)]
    return [f"the runbook does not quote {quote!r}" for quote in walk.quotes if not any(quote.casefold() in m for m in marked)]


def uncompared(alert, section):
    """Words in italics that neither a walk nor NOT_COMPARED names. Each section begins with the severity, in italics too."""
    quotes = [quote.casefold() for w in WALKS if w.alert == alert for quote in w.quotes]
    text = re.sub(r"^\*(?:Page|Ticket)\.\* ", "", re.sub(r"`[^`]*`", "", section or ""))
    return [words for words in re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", text)
            if not any(quote in words.casefold() for quote in quotes) and words not in NOT_COMPARED.get(alert, {})]


def severity_of(walk, rule):
    return walk.severity or {"page": "down", "ticket": "degraded"}[rule.severity]


def is_well(scene, walk, rule):
    """Whether the findings of a walk have gone, and siwatch is ready."""
    answer = fetch(scene.daemon.url + "/status.json")
    if answer.code != 200 or fetch(scene.daemon.url + "/readyz").code != 200:
        return False
    runbooks = {walk.alert.lower(), *(walk.worst or ())}
    return not any(f.get("runbook") in runbooks and f["severity"] == severity_of(walk, rule) for f in json.loads(answer.text)["findings"])


def take(walk, tools, rules, sections, sql):
    """Takes a walk. Returns its faults and what status said."""
    began = time.monotonic()
    faults = read_faults(walk, sections.get(walk.alert))
    said = None
    try:
        with Scene(tools) as scene:
            timeline = walk.body(scene)
            end = time.monotonic() + 40
            # Slow figures of the page are a quarter of a minute old.
            while True:
                said = Said(scene, walk, sql.get(walk.alert, ([], [])))
                wrong = said.faults(walk, rules[walk.alert])
                if not wrong or time.monotonic() > end:
                    break
                time.sleep(0.5)
            faults += wrong
            fired = timeline.firing(tools.promtool, rules[walk.alert].wait, scene.folder)
            walk.fired = {alert for alert, _ in fired}
            if walk.alert not in walk.fired or walk.cause and (walk.alert, walk.cause) not in fired:
                faults.append(f"the alert does not fire; these do: {', '.join(sorted(walk.fired)) or 'none'}")
            if scene.mend and not wrong:
                scene.mend()
                until("siwatch is well after the remedy", lambda: is_well(scene, walk, rules[walk.alert]), 90, pause=0.5)
                walk.mended = True
            pages = {name for name in walk.fired - {walk.alert} if rules[name].severity == "page"}
            if pages - walk.beside:
                faults.append(f"these page as well: {', '.join(sorted(pages - walk.beside))}")
    except Exception as error:
        faults.append(str(error) if isinstance(error, Failed) else traceback.format_exc())
    walk.seconds = time.monotonic() - began
    return faults, said


SLOW_DISK = r"""
#include <sys/syscall.h>
#include <stdlib.h>
#include <unistd.h>

static int flush(long call, int file) {
    const char *mark = getenv("SIWATCH_SLOW_DISK");
    if (mark && access(mark, F_OK) == 0) usleep(2800000);
    return syscall(call, file);
}

int fsync(int file) { return flush(SYS_fsync, file); }
int fdatasync(int file) { return flush(SYS_fdatasync, file); }
"""


def build(folder, name, source):
    """A library between a process and the system."""
    compiler = shutil.which("cc") or shutil.which("clang")
    if not compiler:
        raise SystemExit("walk_runbooks: a C compiler is needed, for a clock that steps and a disk that is slow")
    (folder / f"{name}.c").write_text(source)
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(folder / f"{name}.so"), str(folder / f"{name}.c")], check=True)
    return str(folder / f"{name}.so")


def clock_source():
    """The library of the tests that steps the clock of a process."""
    source = re.search(r'source = """\n(.*?)\n        """', CLOCK.read_text(), re.S)[1]
    return "\n".join(line[8:] for line in source.splitlines()) + "\n"


# The configuration that lets Apple be asked about each token every two seconds.
FAST = {"refresh": 'interval = "2s"'}


def milliseconds(ago=0):
    return int((time.time() - ago) * 1000)


def check_now(scene):
    """Makes all checks due."""
    scene.sql(f"UPDATE credential SET due_at = {milliseconds()} WHERE due_at IS NOT NULL")


def proven(scene, siwatch, count):
    """Users whose tokens Apple has accepted twice. A first check proves nothing."""
    people = scene.sign_ins(count)
    scene.grant(people)
    scene.settled("grant_queue")
    check_now(scene)
    scene.accepted(count)
    check_now(scene)
    siwatch.scraped("Apple has accepted all twice", lambda s: (s.value("refreshes_total", outcome="valid") or 0) >= 2 * count)
    return people


# MARK: The process

@walk("SiwatchDown", cause="no answer", quotes=["no siwatch runs on this database"], readyz=None)
def killed(scene):
    siwatch = scene.begin()
    before = siwatch.scrape()
    siwatch.kill()
    scene.mend = scene.start
    return one(before, None)


@walk("SiwatchDown", cause="no target", finding=False, quotes=["ok"])
def forgotten_by_prometheus(scene):
    scene.begin()
    return Timeline([({}, 1)])


@walk("SiwatchNotReady", quotes=["siwatch is not ready", "is gone"], says=["event=database_displaced"], readyz=503)
def moved(scene):
    siwatch = scene.begin()
    before = siwatch.scrape()
    scene.database.rename(scene.folder / "moved.sqlite")
    scene.mend = lambda: (scene.folder / "moved.sqlite").rename(scene.database)
    return one(before, siwatch.scraped("siwatch is not ready", lambda s: s.value("ready") == 0))


@walk("SiwatchNotReady", variant="replaced", quotes=["is not the file any more"], says=["event=database_displaced"], readyz=503)
def replaced(scene):
    siwatch = scene.begin()
    before = siwatch.scrape()
    shutil.copy(scene.database, scene.folder / "copy.sqlite")
    scene.tools.account.own(scene.folder / "copy.sqlite")
    os.chmod(scene.folder / "copy.sqlite", 0o660)
    (scene.folder / "copy.sqlite").rename(scene.database)
    return one(before, siwatch.scraped("siwatch is not ready", lambda s: s.value("ready") == 0))


@walk("SiwatchNotReady", variant="log", quotes=["was removed or replaced"], says=["event=database_displaced"], readyz=503)
def log_removed(scene):
    siwatch = scene.begin()
    before = siwatch.scrape()
    for end in ("-wal", "-shm"):
        os.remove(f"{scene.database}{end}")
    scene.mend = lambda: (siwatch.stop(), scene.start())
    return one(before, siwatch.scraped("siwatch is not ready", lambda s: s.value("ready") == 0))


@walk("SiwatchNotReady", variant="locked", quotes=["no progress", "backends cannot insert"], worst={"siwatchbackendslockedout"},
      readyz=503, beside={"SiwatchBackendsLockedOut", "SiwatchQueueStalled"})
def not_ready_behind_a_lock(scene):
    return locked_with_rows(scene)


@walk("SiwatchNotReady", variant="starting", quotes=["starting"], severity="degraded", readyz=503)
def hangs_at_the_start(scene):
    siwatch = scene.begin({"refresh": 'timeout = "60s"'})
    before = siwatch.scraped("Apple's keys", lambda s: s.value("signing_keys"))
    siwatch.stop()
    # A start asks Apple for the time first.
    scene.fault(connection="hang", endpoint="keys")
    siwatch = scene.start(until_event="listening")
    return one(before, siwatch.scraped("siwatch is not ready", lambda s: s.value("ready") == 0))


@walk("SiwatchNotReady", variant="stopping", quotes=["stopping"], severity="degraded", readyz=503)
def hangs_at_the_stop(scene):
    siwatch = scene.begin({"refresh": 'interval = "2s"\ntimeout = "60s"'})
    before = siwatch.scrape()
    scene.fault(connection="hang", endpoint="token")
    scene.grant(scene.sign_ins(1))
    siwatch.scraped("a check waits for Apple", lambda s: s.value("refreshes_in_flight"))
    siwatch.process.terminate()
    return one(before, siwatch.scraped("siwatch is not ready", lambda s: s.value("ready") == 0))


@walk("SiwatchNotReady", variant="clock of a host", quotes=["this host's clock is … behind the database's"], readyz=503)
def a_wrong_clock_beside_the_servers(scene):
    scene.use_clock()
    siwatch = scene.begin(url=Server(scene).url)
    before = siwatch.scrape()
    scene.travel(-20 * MINUTE, with_apple=False)
    after = siwatch.scraped("siwatch is not ready", lambda s: s.value("ready") == 0)
    after.at = before.at + MINUTE
    return one(before, after)


@walk("SiwatchLaneWithoutOwner", finding=False, quotes=["renewal_failed", "the database cannot be reached"], worst={"siwatchnotready"},
      code=2, readyz=503, beside={"SiwatchNotReady"})
def server_goes(scene):
    server = Server(scene)
    scene.set_up(url=server.url, replicas=["other"])
    daemons = {INSTANCE: scene.start(), "b:9464": Daemon(scene, "other")}

    def scrapes():
        return {name: daemon.scrape() for name, daemon in daemons.items()}
    before = scrapes()
    server.take_down()

    def nobody():
        now = scrapes()
        return now if not any(s.value("lane_owned") for s in now.values()) else None
    return Timeline([(before, 1), (until("no replica owns a lane", nobody), 1)])


@walk("SiwatchRestarting", finding=False, quotes=["process … since"])
def killed_again_and_again(scene):
    siwatch = scene.begin()
    scrapes = [siwatch.scrape()]
    for _ in range(4):
        siwatch.kill()
        siwatch = scene.start()
        scrapes.append(siwatch.scrape())
    return one(*scrapes)


# MARK: Queues

@walk("SiwatchQueueStalled", finding=False, quotes=["no progress", "backends cannot insert", "Claiming work failed"],
      says=["event=claim_failed"],
      worst={"siwatchbackendslockedout"}, code=2, readyz=503, beside={"SiwatchBackendsLockedOut", "SiwatchNotReady"})
def locked_with_rows(scene):
    siwatch = scene.begin()
    scene.notify(["settled before"])
    scene.settled("notification_queue")
    before = siwatch.scraped("a settlement", lambda s: s.value("settlements_total"))
    hold_rows(scene)
    return one(before, siwatch.scraped("rows are due and siwatch is not ready", lambda s: s.value("queue_due") and s.value("ready") == 0))


def hold_rows(scene, count=1):
    """Takes the write lock behind rows that siwatch has not claimed yet."""
    connection = scene.connect()
    while True:
        for _ in range(count):
            connection.execute("INSERT INTO notification_queue (payload, due_at) VALUES ('{}', ?)", [milliseconds(-1)])
        connection.execute("BEGIN IMMEDIATE")
        if connection.execute("SELECT COUNT(*) FROM notification_queue WHERE claimed_by IS NULL").fetchone()[0] >= count:
            return connection
        connection.execute("ROLLBACK")


@walk("SiwatchQueueStalled", variant="full disk", finding=False, quotes=["The database could not commit"], says=["event=commit_failed"],
      worst={"siwatchstorefull"}, code=2, readyz=503, beside={"SiwatchBackendsLockedOut", "SiwatchNotReady", "SiwatchStoreFull"})
def stalled_by_a_full_disk(scene):
    scene.small_disk("16m")
    siwatch = scene.begin()
    scene.notify(["settled before"])
    scene.settled("notification_queue")
    before = siwatch.scraped("a settlement", lambda s: s.value("settlements_total"))
    scene.fault(endpoint="token", delay_ms=5000)
    scene.tell_codes(scene.sign_ins(40, credential="authorization_code"))
    until("siwatch has claimed the codes", lambda: scene.one("SELECT COUNT(*) FROM grant_queue WHERE claimed_by IS NULL") == 0)
    scene.notify(["x" * 10_000] * 100, due_at=milliseconds(-5))
    scene.fill_disk()
    until("siwatch cannot commit", lambda: siwatch.says("event=commit_failed"))
    return one(before, siwatch.scraped("rows are due and siwatch is not ready", lambda s: s.value("queue_due") and s.value("ready") == 0))


@walk("SiwatchQueueStalled", variant="server", finding=False, quotes=["idle in transaction"], says=["held by session … of oncall"],
      worst={"siwatchbackendslockedout"}, code=2, readyz=503, beside={"SiwatchBackendsLockedOut", "SiwatchNotReady"},
      sql="oncall|psql||idle in transaction")
def a_locked_table_with_rows(scene):
    server = Server(scene)
    siwatch = scene.begin(url=server.url)
    server.sql("CREATE ROLE oncall LOGIN SUPERUSER; INSERT INTO notification_queue (payload) VALUES ('x')")
    before = siwatch.scraped("a settlement", lambda s: s.value("settlements_total"))
    server.hold(f"INSERT INTO notification_queue (payload, due_at) VALUES ('x', {milliseconds(-2)}); COMMIT; BEGIN; "
                "LOCK TABLE notification_queue IN EXCLUSIVE MODE", "oncall")
    return one(before, siwatch.scraped("rows are due and siwatch is not ready", lambda s: s.value("queue_due") and s.value("ready") == 0))


@walk("SiwatchNotificationsWaiting", quotes=["the oldest notification waits"])
def unknown_signing_key(scene):
    siwatch = scene.begin()
    before = siwatch.scrape()
    scene.sign_ins(1)
    bodies = scene.notifications("notifications", any=1, type="consent-revoked", signature="unknown_key")
    scene.notify(bodies, received_at=milliseconds(20 * MINUTE))

    # A row that siwatch has not looked at yet would be due.
    def waits(scrape):
        return scrape.value("queue_oldest_timestamp_seconds", queue="notification") and scrape.value("queue_due") == 0
    return one(before, siwatch.scraped("a notification waits", waits), lead=60)


@walk("SiwatchQueueHeadStuck", quotes=["a week for an app of the configuration to name their client",
                                       "Sign-ins name clients that no app in the configuration has"], says=["event=unknown_clients"])
def unknown_client(scene):
    siwatch = scene.begin()
    before = siwatch.scrape()

    def mend():
        text = (scene.folder / "siwatch.toml").read_text()
        scene.write("siwatch.toml", re.sub("(?m)^client_ids = \\[", '\\g<0>"com.example.other", ', text))
        siwatch.stop()
        scene.start()
    scene.mend = mend
    scene.grant([{**s, "client_id": "com.example.other"} for s in scene.sign_ins(1)])
    until("siwatch has looked at the sign-in", lambda: siwatch.says("event=unknown_clients"))
    return one(before, siwatch.scraped("a sign-in waits", lambda s: s.value("queue_depth", queue="grant")), more=12)


@walk("SiwatchQueueHeadStuck", variant="dated ahead",
      quotes=["dated ahead of the clock", "Sign-ins are dated ahead of Apple's clock"], says=["event=grants_from_future"])
def dated_ahead(scene):
    scene.use_clock()
    siwatch = scene.begin()
    before = siwatch.scrape()
    scene.grant(scene.sign_ins(1), granted_at=milliseconds(-5 * HOUR))
    until("siwatch has looked at the sign-in", lambda: siwatch.says("event=grants_from_future"))
    after = siwatch.scraped("a sign-in waits", lambda s: s.value("queue_depth", queue="grant"))
    scene.travel(61 * MINUTE)
    # Figures that count rows are up to fifteen seconds old.
    until("siwatch counts anew", lambda: '"degraded"' in fetch(siwatch.url + "/status.json").text)
    return one(before, after, more=12)


@walk("SiwatchRowsRejected", cause="grant", finding=False, quotes=["unknown_token_key", "A token that a backend has sealed does not open"],
      says=["event=token_undelivered"], sql="unknown_token_key")
def sealed_to_another_key(scene):
    siwatch = scene.begin()
    before = siwatch.scrape()
    person = scene.sign_ins(1)[0]
    scene.insert("grant_queue", [{"client_id": person["client_id"], "user_id": person["user_id"], "token_sealed": b"\1" + os.urandom(80)}])
    return one(before, siwatch.scraped("a rejected sign-in", lambda s: s.value("grants_total", outcome="rejected")))


# MARK: Codes and revocations

@walk("SiwatchCodesExpired", quotes=["codes end within a minute", "Apple gives no usable answer"], says=["code_rejected"], sql="status 503",
      worst={"siwatchcodesexpired", "siwatchappleerrors"})
def codes_wait(scene):
    siwatch = scene.begin()
    before = siwatch.scrape()
    scene.fault(status=503, endpoint="token")
    codes = scene.sign_ins(8, credential="authorization_code")
    scene.tell_codes(codes[:4], granted_at=milliseconds(290))
    after = siwatch.scraped("codes expire", lambda s: (s.value("code_exchanges_total", outcome="code_expired") or 0) >= 4)
    scene.tell_codes(codes[4:], granted_at=milliseconds(245))
    return one(before, after)


@walk("SiwatchCodesFailed", cause="refused", quotes=["sign-ins within an hour came to nothing", "client_mismatch", "A code brought no sign-in"],
      says=["event=code_rejected"], sql="client_mismatch")
def codes_of_another_client(scene):
    siwatch = scene.begin()
    before = siwatch.scrape()
    scene.tell_codes([{**s, "client_id": "com.example.web"} for s in scene.sign_ins(6, credential="authorization_code")])
    return one(before, siwatch.scraped("refused codes", lambda s: (s.value("code_exchanges_total", outcome="client_mismatch") or 0) >= 6))


@walk("SiwatchCodesFailed", cause="refused", variant="nonce", quotes=["sign-ins within an hour came to nothing", "nonce", "bad_id_token"],
      says=["event=code_rejected"], sql="nonce")
def codes_with_another_nonce(scene):
    siwatch = scene.begin()
    before = siwatch.scrape()
    scene.tell_codes(scene.sign_ins(6, credential="authorization_code", nonce="hashed"), nonce="raw")
    return one(before, siwatch.scraped("refused codes", lambda s: (s.value("code_exchanges_total", outcome="bad_id_token") or 0) >= 6))


@walk("SiwatchCodesFailed", cause="answer lost", finding=False, quotes=["Apple gives no usable answer", "reset", "answer_lost"],
      says=["event=code_rejected"],
      worst={"siwatchappleerrors"}, code=1, beside={"SiwatchCodesExpired"})
def answers_to_codes_are_lost(scene):
    siwatch = scene.begin()
    before = siwatch.scrape()
    scene.fault(endpoint="token", grant_type="authorization_code", loses="answer", connection="reset", count=4)
    scene.tell_codes(scene.sign_ins(4, credential="authorization_code"))
    return one(before, siwatch.scraped("lost answers", lambda s: (s.value("code_exchanges_total", outcome="answer_lost") or 0) >= 4))


@walk("SiwatchRevocationsUnproved", quotes=["to revoke wait", "Apple still accepts", "Apple has accepted it still"],
      says=["event=revocation_unproved"])
def revocation_without_effect(scene):
    siwatch = scene.begin(FAST)
    before = siwatch.scrape()
    people = scene.signed_in(1, granted_at=milliseconds(3 * HOUR))
    scene.fault(endpoint="revoke", status=200)
    scene.revoke(people, requested_at=milliseconds(2 * HOUR))
    until("Apple still accepts the token", lambda: siwatch.says("event=revocation_unproved"))
    scene.commands.append(["explain", people[0]["user_id"], "--receipts"])
    return one(before, siwatch.scrape(), step=5, lead=60)


@walk("SiwatchRevocationsUnproved", variant="dead before", quotes=["to revoke wait", "siwatch believes that once"])
def revocation_of_a_dead_token(scene):
    siwatch = scene.begin(FAST)
    before = siwatch.scrape()
    people = scene.signed_in(1, granted_at=milliseconds(3 * HOUR))
    scene.apple("POST", "password-changes", {"user_ids": [people[0]["user_id"]]})
    scene.revoke(people, requested_at=milliseconds(2 * HOUR))
    scene.commands.append(["explain", people[0]["user_id"], "--receipts"])
    after = siwatch.scraped("a request waits", lambda s: s.value("queue_depth", queue="revocation"))
    return one(before, after, step=5, lead=60)


@walk("SiwatchRevocationsUnproved", variant="no answer", quotes=["to revoke wait", "questions since then brought no answer"],
      worst={"siwatchappleerrors"}, code=1)
def revocation_without_an_answer(scene):
    siwatch = scene.begin(FAST)
    before = siwatch.scrape()
    people = scene.signed_in(1, granted_at=milliseconds(3 * HOUR))
    scene.fault(endpoint="token", status=503)
    scene.revoke(people, requested_at=milliseconds(2 * HOUR))
    scene.grant(scene.sign_ins(5))
    scene.settled("grant_queue")
    scene.commands.append(["explain", people[0]["user_id"], "--receipts"])
    after = siwatch.scraped("a request waits", lambda s: s.value("queue_depth", queue="revocation"))
    return one(before, after, step=5, lead=60)


@walk("SiwatchRevocationsUnproved", variant="unreadable", quotes=["to revoke wait", "A stored token cannot be opened"],
      says=["event=token_unreadable"])
def revocation_of_an_unreadable_token(scene):
    siwatch = scene.begin()
    before = siwatch.scrape()
    people = scene.sign_ins(1, granted_at=milliseconds(3 * HOUR))
    scene.grant(people)
    scene.settled("grant_queue")
    scene.sql("UPDATE credential SET sealed_token = randomblob(length(sealed_token))")
    scene.revoke(people, requested_at=milliseconds(2 * HOUR))
    after = siwatch.scraped("a request waits", lambda s: s.value("queue_depth", queue="revocation"))
    return one(before, after, step=5, lead=60)


@walk("SiwatchRevocationsHeld", quotes=["the revocation limit is reached since"], says=["event=revocations_held"])
def too_many_revocations(scene):
    siwatch = scene.begin({**FAST, "revocations": "max_per_hour = 1"})
    before = siwatch.scrape()
    scene.revoke(scene.signed_in(4))
    scene.mend = lambda: scene.must("revocations", "confirm", "example", "3")
    return one(before, siwatch.scraped("held requests", lambda s: s.value("revocations_held")))


@walk("SiwatchRowsRejected", cause="revocation", finding=False, quotes=["revocations_disabled", "A request to revoke was rejected"],
      sql="revocations_disabled")
def revocations_are_disabled(scene):
    siwatch = scene.begin(app="revocations = false")
    before = siwatch.scrape()
    people = scene.sign_ins(1)
    scene.grant(people)
    scene.settled("grant_queue")
    scene.revoke(people)
    return one(before, siwatch.scraped("a rejected request", lambda s: s.value("revocations_total", outcome="rejected")))


# MARK: Notifications

@walk("SiwatchNotificationsLate", cause="late", finding=False, sql="360… 0")
def late_notifications(scene):
    siwatch = scene.begin()
    before = siwatch.scrape()
    scene.grant(scene.sign_ins(12, granted_at=milliseconds(2 * HOUR)))
    scene.settled("grant_queue")
    scene.notify(scene.notifications("consent-revocations", any=12, event_time=milliseconds(HOUR)))
    after = siwatch.scraped("notifications", lambda s: (s.value("notification_lag_seconds_count") or 0) >= 12)
    return one(before, after)


@walk("SiwatchNotificationsLate", cause="silent", quotes=["Apple's last notification came", "last verified notification", "in quarantine"])
def no_notification_for_a_day(scene):
    scene.use_clock()
    siwatch = scene.begin()
    before = siwatch.scrape()
    scene.sign_ins(160)
    scene.notify([*scene.notifications("consent-revocations", any=160), "no notification"])
    after = siwatch.scraped("notifications", lambda s: (s.value("notifications_total") or 0) >= 160)
    scene.travel(25 * HOUR)
    siwatch.stop()
    siwatch = scene.start()
    return Timeline([({INSTANCE: before}, 6), ({INSTANCE: after}, 150), ({INSTANCE: siwatch.scrape()}, 1)], step=10)


@walk("SiwatchNotificationsLate", cause="missed", quotes=["came without a notification"], severity="note")
def users_leave_without_a_notification(scene):
    scene.use_clock()
    siwatch = scene.begin({**FAST, "breaker": 'settle = "1s"'})
    before = siwatch.scrape()
    people = scene.signed_in(12)
    scene.apple("POST", "password-changes", {"user_ids": [s["user_id"] for s in people[:6]]})
    until("siwatch believes the rejections", lambda: scene.one("SELECT COUNT(*) FROM credential WHERE reason = 'token_rejected'") == 6)
    scene.travel(70 * MINUTE)
    after = siwatch.scraped("missed notifications", lambda s: (s.value("notifications_missed_total") or 0) >= 6, 90)
    return one(before, after, step=5, lead=60)


@walk("SiwatchRowsRejected", cause="notification", severity="note", quotes=["in quarantine", "wrong_audience"])
def a_strangers_audience(scene):
    siwatch = scene.begin()
    before = siwatch.scrape()
    scene.sign_ins(1)
    scene.notify(scene.notifications("notifications", any=1, type="consent-revoked", audience="com.example.stranger"))
    return one(before, siwatch.scraped("a rejected notification", lambda s: s.value("notifications_rejected_total", reason="wrong_audience")))


@walk("SiwatchQuarantineGrowing", cause="growing", finding=False, quotes=["in quarantine", "malformed"])
def rubbish(scene):
    siwatch = scene.begin()
    before = siwatch.scrape()
    scene.notify(["no notification"] * 150)
    return one(before, siwatch.scraped("rejected notifications", lambda s: (s.value("notifications_rejected_total") or 0) >= 150))


@walk("SiwatchQuarantineGrowing", cause="evicting", finding=False, quotes=["in quarantine"])
def rubbish_fills_the_quarantine(scene):
    siwatch = scene.begin()
    before = siwatch.scrape()
    # The ring holds 64 MiB or 10,000 rows.
    scene.notify(["x" * 60_000] * 2250)
    return one(before, siwatch.scraped("evicted notifications", lambda s: (s.value("notifications_evicted_total") or 0) > 1100, 120))


# MARK: Checks

@walk("SiwatchChecksLate", cause="overdue", quotes=["checks overdue"])
def slow_checks(scene):
    siwatch = scene.begin({"refresh": "max_requests_per_second = 1\nmax_concurrent_requests = 1"})
    before = siwatch.scrape()
    scene.fault(endpoint="token", delay_ms=8000)
    scene.grant(scene.sign_ins(60))
    scene.settled("grant_queue")
    scene.sql(f"UPDATE credential SET due_at = {milliseconds(2 * HOUR)}")
    return one(before, siwatch.scraped("late checks", lambda s: (s.value("credentials_overdue") or 0) > 20))


@walk("SiwatchChecksLate", cause="do not fit", quotes=["a check of all … tokens takes", "would do"], says=["event=checks_do_not_fit"])
def too_many_users(scene):
    siwatch = scene.begin({"refresh": 'interval = "20s"\nmax_requests_per_second = 1'})
    before = siwatch.scrape()
    scene.grant(scene.sign_ins(40))

    def mend():
        text = (scene.folder / "siwatch.toml").read_text()
        scene.write("siwatch.toml", text.replace("max_requests_per_second = 1", "max_requests_per_second = 50"))
        siwatch.process.send_signal(signal.SIGHUP)
    scene.mend = mend
    return one(before, siwatch.scraped("a round that does not fit", lambda s: (s.value("refresh_round_ratio") or 0) > 1))


@walk("SiwatchCredentialsUnverified", quotes=["no good answer about … credentials", "Apple accepts … tokens as those of other users"],
      says=["event=answer_ambiguous"])
def tokens_of_other_users(scene):
    siwatch = scene.begin({"refresh": 'interval = "1s"'})
    before = siwatch.scrape()
    scene.fault(endpoint="token", grant_type="refresh_token", id_token="another_subject")
    scene.grant(scene.sign_ins(6))
    return one(before, siwatch.scraped("unverified credentials", lambda s: (s.value("credentials_unverified") or 0) > 4))


@walk("SiwatchCredentialsUnverified", variant="unreadable", quotes=["no good answer about … credentials", "A stored token cannot be opened"],
      says=["event=token_unreadable"])
def unreadable_tokens(scene):
    siwatch = scene.begin({"refresh": 'interval = "1s"'})
    before = siwatch.scrape()
    scene.signed_in(6)
    scene.sql("UPDATE credential SET sealed_token = randomblob(length(sealed_token))")
    return one(before, siwatch.scraped("unverified credentials", lambda s: (s.value("credentials_unverified") or 0) > 4))


@walk("SiwatchTokensUnusable", cause="never accepted", quotes=["tokens that it has never accepted"], severity="note")
def dead_tokens(scene):
    siwatch = scene.begin({**FAST, "breaker": 'settle = "1s"'})
    before = siwatch.scrape()
    scene.signed_in(3)
    scene.grant([{**s, "refresh_token": f"r.{i}.rubbish"} for i, s in enumerate(scene.sign_ins(6))])
    return one(before, siwatch.scraped("tokens that Apple never accepted", lambda s: (s.value("credentials_never_accepted") or 0) >= 6))


@walk("SiwatchTokensUnusable", cause="unnamed", finding=False, quotes=['outcome="unnamed"'])
def answers_without_a_name(scene):
    siwatch = scene.begin(FAST, simulator=["--no-id-token-on-refresh"])
    before = siwatch.scrape()
    scene.grant(scene.sign_ins(14))
    return one(before, siwatch.scraped("unnamed answers", lambda s: (s.value("refreshes_total", outcome="unnamed") or 0) >= 14))


@walk("SiwatchTokensUnusable", cause="new ones rejected", finding=False, quotes=["rejections wait to be believed"])
def an_import_of_dead_tokens(scene):
    siwatch = scene.begin(FAST)
    before = siwatch.scrape()
    scene.signed_in(3)
    scene.grant([{**s, "refresh_token": f"r.{i}.rubbish"} for i, s in enumerate(scene.sign_ins(30))])
    return one(before, siwatch.scraped("rejected first checks", lambda s: (s.value("first_checks_total", outcome="rejected") or 0) >= 25))


@walk("SiwatchMassRejection", quotes=["Apple rejected", "tokens within an hour", "rejections wait to be believed"])
def half_of_the_users_leave(scene):
    siwatch = scene.begin({"refresh": 'interval = "1h"', "breaker": "max_rejections = 400"})
    people = proven(scene, siwatch, 60)
    before = siwatch.scrape()
    scene.apple("POST", "password-changes", {"user_ids": [s["user_id"] for s in people[:30]]})
    check_now(scene)
    return one(before, siwatch.scraped("rejections", lambda s: (s.value("refreshes_total", outcome="rejected") or 0) >= 30))


@walk("SiwatchRejectionsPending", cause="nothing accepted", quotes=["Apple has accepted no token of", "within an interval"])
def a_dead_client(scene):
    scene.use_clock()
    siwatch = scene.begin(FAST)
    people = scene.signed_in(4)
    before = siwatch.scrape()
    siwatch.stop()
    scene.apple("POST", "password-changes", {"user_ids": [s["user_id"] for s in people]})
    scene.travel(2 * HOUR)
    siwatch = scene.start()
    after = siwatch.scraped("held rejections", lambda s: (s.value("refreshes_total", outcome="held") or 0) >= 4)
    return one(before, after, step=5, lead=60)


@walk("SiwatchRejectionsPending", cause="breaker open", quotes=["no rejection is believed", "Canary"],
      says=["Apple rejected the canary", "event=breaker_opened"])
def a_dead_canary(scene):
    scene.set_up(FAST)
    people = scene.sign_ins(3)
    canary = people[0]["user_id"]
    text = (scene.folder / "siwatch.toml").read_text()
    scene.write("siwatch.toml", text.replace("\nclient_ids", f'\ncanaries = ["{canary}"]\nclient_ids', 1))
    siwatch = scene.start()
    before = siwatch.scrape()
    scene.grant(people)
    scene.accepted(3)
    scene.apple("POST", "password-changes", {"user_ids": [canary]})
    return one(before, siwatch.scraped("the breaker opens", lambda s: s.value("breaker_open")))


@walk("SiwatchRejectionsPending", cause="breaker open", variant="rejections", quotes=["no rejection is believed", "Rejections"],
      says=["answers were rejections", "event=breaker_opened"])
def too_many_rejections(scene):
    siwatch = scene.begin({"refresh": 'interval = "1h"'})
    people = proven(scene, siwatch, 60)
    before = siwatch.scrape()
    scene.apple("POST", "password-changes", {"user_ids": [s["user_id"] for s in people[:40]]})
    check_now(scene)
    return one(before, siwatch.scraped("the breaker opens", lambda s: s.value("breaker_open")))


@walk("SiwatchRejectionsPending", cause="breaker open", variant="blamed", quotes=["Blames the configuration"],
      says=["event=breaker_opened"], worst={"siwatchapppaused"}, code=2,
      beside={"SiwatchAppPaused"})
def a_blamed_client(scene):
    siwatch = scene.begin(FAST)
    before = siwatch.scrape()
    scene.signed_in(2)
    scene.apple("DELETE", "client-keys/ABC123DEFG")
    return one(before, siwatch.scraped("the breaker opens", lambda s: s.value("breaker_open")))


@walk("SiwatchRejectionsPending", cause="breaker open", variant="unreadable", quotes=["its state could not be read when siwatch started", "Its state cannot be read"],
      worst={"siwatchdecisionplanted"})
def an_unreadable_breaker(scene):
    siwatch = scene.begin(FAST)
    before = siwatch.scrape()
    siwatch.stop()
    scene.sql("INSERT INTO breaker (app, state) SELECT id, 'planted' FROM app WHERE true ON CONFLICT (app) DO UPDATE SET state = 'planted'")
    scene.overheard = scene.run("status").text
    siwatch = scene.start()
    scene.mend = lambda: scene.must("breaker", "reset", "example")
    return one(before, siwatch.scraped("the breaker is open", lambda s: s.value("breaker_open")))


@walk("SiwatchRejectionsPending", cause="pending", quotes=["rejections wait to be believed"], severity="note")
def rejections_wait(scene):
    siwatch = scene.begin({"refresh": 'interval = "1h"'})
    people = proven(scene, siwatch, 12)
    before = siwatch.scrape()
    scene.apple("POST", "password-changes", {"user_ids": [s["user_id"] for s in people[:6]]})
    check_now(scene)
    return one(before, siwatch.scraped("pending rejections", lambda s: (s.value("credentials_pending") or 0) >= 6), step=10, more=190)


@walk("SiwatchAppPaused", variant="refused", quotes=["Apple refuses the client"], says=["event=app_paused", "invalid_client"])
def a_revoked_key(scene):
    siwatch = scene.begin(FAST)
    before = siwatch.scrape()
    scene.signed_in(2)
    scene.apple("DELETE", "client-keys/ABC123DEFG")
    return one(before, siwatch.scraped("the app is paused", lambda s: s.value("app_paused")))


@walk("SiwatchAppPaused", variant="by an operator", quotes=["an operator has paused it since"], severity="degraded")
def an_operators_pause(scene):
    siwatch = scene.begin()
    before = siwatch.scrape()
    scene.must("pause", "example")
    scene.mend = lambda: scene.must("resume", "example")
    return one(before, siwatch.scraped("the app is paused", lambda s: s.value("app_paused")))


# MARK: Apple

@walk("SiwatchAppleErrors", cause="no usable answer", quotes=["Apple gives no usable answer"], says=["event=apple_unreachable"])
def apple_fails(scene):
    siwatch = scene.begin(FAST)
    before = siwatch.scrape()
    scene.fault(endpoint="token", status=503)

    def failures(scrape):
        return scrape.value("apple_responses_total", endpoint="token", status="503") or 0
    scene.grant(scene.sign_ins(5))
    first = siwatch.scraped("a failed request", failures)
    scene.grant(scene.sign_ins(40))
    # The series begins with the first failure, and Prometheus sees no increase before it.
    return one(before, first, siwatch.scraped("failed requests", lambda s: failures(s) >= failures(first) + 12))


@walk("SiwatchChecksLate", cause="throttled", quotes=["Apple answered 429 to", "checks within three hours"], says=["event=throttled"])
def apple_throttles(scene):
    siwatch = scene.begin(FAST)
    before = siwatch.scrape()
    scene.fault(endpoint="token", status=429)
    scene.grant(scene.sign_ins(20))
    return one(before, siwatch.scraped("throttled checks", lambda s: (s.value("refreshes_total", outcome="throttled") or 0) >= 3))


@walk("SiwatchSigningKeysMissing", quotes=["siwatch knows none of Apple's keys", "Apple's signing keys could not be fetched"],
      says=["event=signing_keys_failed"])
def no_keys(scene):
    scene.set_up()
    scene.fault(endpoint="keys", status=503)
    scene.mend = lambda: scene.apple("DELETE", "faults")
    siwatch = scene.start()
    return one(siwatch.scraped("no signing key", lambda s: s.value("signing_keys") == 0))


@walk("SiwatchAppleErrors", cause="old signing keys", quotes=["siwatch last fetched Apple's keys"])
def old_keys(scene):
    scene.use_clock()
    siwatch = scene.begin()
    before = siwatch.scrape()
    siwatch.stop()
    scene.fault(endpoint="keys", status=503)
    scene.travel(7 * HOUR)
    return one(before, scene.start().scrape(), step=5, lead=100)


@walk("SiwatchSigningKeyPlanted", quotes=["somebody wrote signing keys into the database", "Signing keys in the database are not as siwatch wrote them"],
      says=["event=signing_keys_disbelieved"])
def a_planted_key(scene):
    siwatch = scene.begin()
    before = siwatch.scraped("Apple's keys", lambda s: s.value("signing_keys"))
    siwatch.stop()
    scene.sql("INSERT INTO signing_key (kid, jwk, last_seen_at, proof) SELECT 'PLANTED', jwk, last_seen_at, proof FROM signing_key LIMIT 1")
    siwatch = scene.start()
    return one(before, siwatch.scraped("a disbelieved key", lambda s: s.value("signing_key_changes_total", change="disbelieved")))


@walk("SiwatchDecisionPlanted", quotes=["somebody wrote decisions into the database", "A decision in the database is not as siwatch wrote it"],
      says=["event=decision_planted"])
def a_planted_decision(scene):
    siwatch = scene.begin(FAST)
    before = siwatch.scrape()
    scene.sql("UPDATE app SET paused_at = 1750000000000")
    return one(before, siwatch.scraped("a planted pause", lambda s: s.value("planted_decisions_total", kind="pause")))


@walk("SiwatchClockSkew", quotes=["the clock that siwatch goes by is", "behind"], says=["event=clock_skewed"])
def a_wrong_clock(scene):
    siwatch = scene.begin(FAST)
    before = siwatch.scrape()
    scene.signed_in(1)
    scene.apple("PUT", "clock", {"offset_ms": 45_000})
    scene.mend = lambda: scene.apple("PUT", "clock", {"offset_ms": 0})
    return one(before, siwatch.scraped("a difference of clocks", lambda s: abs(s.value("apple_clock_skew_seconds") or 0) > 40))


# MARK: The database

@walk("SiwatchBackendsLockedOut", variant="lock", quotes=["has kept the write lock"], says=["event=inserts_blocked"], readyz=503,
      beside={"SiwatchNotReady"})
def a_forgotten_transaction(scene):
    siwatch = scene.begin()
    before = siwatch.scrape()
    connection = scene.hold_write_lock()
    scene.mend = lambda: connection.execute("ROLLBACK")
    return one(before, siwatch.scraped("backends cannot insert", lambda s: s.value("store_writable") == 0))


@walk("SiwatchBackendsLockedOut", variant="mode", quotes=["has mode"],
      says=["event=inserts_blocked"], readyz=503, beside={"SiwatchNotReady"})
def a_mode_without_the_group(scene):
    siwatch = scene.begin()
    before = siwatch.scrape()
    os.chmod(scene.database, 0o640)

    def mend():
        command = re.search(r"sudo -u \S+ (chmod \S+ \S+) lets them", fetch(siwatch.url + "/readyz").text)[1]
        subprocess.run(command, shell=True, check=True)
    scene.mend = mend
    return one(before, siwatch.scraped("backends cannot insert", lambda s: s.value("store_writable") == 0))


@walk("SiwatchBackendsLockedOut", variant="journal", quotes=["keeps new connections out"], readyz=503, beside={"SiwatchNotReady"})
def a_planted_journal(scene):
    siwatch = scene.begin()
    before = siwatch.scrape()
    scene.write("siwatch.sqlite-journal", "planted")
    scene.mend = lambda: os.remove(f"{scene.database}-journal")
    return one(before, siwatch.scraped("backends cannot insert", lambda s: s.value("store_writable") == 0))


@walk("SiwatchBackendsLockedOut", variant="file lock", quotes=["keeps the file … locked"], readyz=503, beside={"SiwatchNotReady"})
def a_lock_of_the_whole_file(scene):
    siwatch = scene.begin()
    before = siwatch.scrape()
    # In a process of its own, because closing the file would end all locks of this one.
    program = "import fcntl, os, signal, sys; fcntl.lockf(os.open(sys.argv[1], os.O_RDWR), fcntl.LOCK_EX, 1, 0x40000000); signal.pause()"
    scene.spawn([sys.executable, "-c", program, str(scene.database)], as_siwatch=False)
    return one(before, siwatch.scraped("backends cannot insert", lambda s: s.value("store_writable") == 0))


@walk("SiwatchBackendsLockedOut", variant="server", quotes=["backends cannot insert"], says=["held by session … of oncall"], readyz=503,
      beside={"SiwatchNotReady"})
def a_locked_table(scene):
    server = Server(scene)
    siwatch = scene.begin(url=server.url)
    before = siwatch.scrape()
    server.sql("CREATE ROLE oncall LOGIN SUPERUSER")
    server.hold("LOCK TABLE notification_queue IN EXCLUSIVE MODE", "oncall")

    def mend():
        session = re.search(r"session (\d+) of oncall", fetch(siwatch.url + "/readyz").text)[1]
        server.sql(f"SELECT pg_terminate_backend({session})")
    scene.mend = mend
    return one(before, siwatch.scraped("backends cannot insert", lambda s: s.value("store_writable") == 0))


@walk("SiwatchStoreFull", quotes=["the disk of … is full"], readyz=503,
      beside={"SiwatchBackendsLockedOut", "SiwatchNotReady", "SiwatchQueueStalled"})
def a_full_disk(scene):
    scene.small_disk("16m")
    siwatch = scene.begin()
    scene.notify(["settled before"])
    scene.settled("notification_queue")
    before = siwatch.scraped("a settlement", lambda s: s.value("settlements_total"))
    # The settlement of so many rows needs more pages than the log has.
    scene.notify(["x" * 10_000] * 200, due_at=milliseconds(-3))
    scene.fill_disk()
    scene.mend = scene.empty_disk
    return one(before, siwatch.scraped("a full disk", lambda s: s.value("store_full") == 1 and s.value("store_writable") == 0))


@walk("SiwatchStoreErrors", cause="errors", finding=False, quotes=["locked", "has kept the write lock"], says=["event=claim_failed"],
      worst={"siwatchbackendslockedout"}, code=2, readyz=503, beside={"SiwatchBackendsLockedOut", "SiwatchNotReady", "SiwatchQueueStalled"})
def a_locked_database(scene):
    siwatch = scene.begin()
    before = siwatch.scrape()
    hold_rows(scene)
    errors = before.value("store_errors_total") or 0
    return one(before, siwatch.scraped("failed transactions", lambda s: (s.value("store_errors_total") or 0) >= errors + 8, 120))


@walk("SiwatchStoreErrors", cause="slow", finding=False, quotes=["siwatch_store_transaction_duration_seconds"])
def a_slow_disk(scene):
    slow = scene.use_slow_disk()
    siwatch = scene.begin()
    before = siwatch.scrape()
    slow.touch()

    def count(scrape):
        return scrape.value("store_transaction_duration_seconds_count") or 0
    last = before
    for _ in range(4):
        scene.notify(["x"])
        last = siwatch.scraped("another commit", lambda s: count(s) > count(last))
    # Between two commits, backends can insert.
    last = siwatch.scraped("siwatch is ready", lambda s: s.value("ready") and s.value("store_writable") and s.value("queue_depth") == 0)
    # The alert looks at two quarters of an hour, one after the other.
    return one(before, last, grows=True, more=45)


@walk("SiwatchForeignCheckpoints", finding=False, quotes=["Another program checkpointed the database"], says=["event=foreign_checkpoint"])
def another_program_checkpoints(scene):
    siwatch = scene.begin()
    before = siwatch.scrape()
    connection = sqlite3.connect(scene.database, timeout=10, isolation_level=None)
    scene.ending.callback(connection.close)

    def is_noticed():
        # A checkpoint beside one of siwatch's own would be taken for that.
        connection.execute("INSERT INTO notification_queue (payload) VALUES ('x')")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return siwatch.scrape().value("foreign_checkpoints_total")
    until("a foreign checkpoint", is_noticed, 150, pause=1)
    return one(before, siwatch.scrape())


@walk("SiwatchLogPinned", quotes=["a transaction keeps erased data readable", "A transaction keeps the database from clearing away what was erased"],
      says=["event=log_pinned"])
def a_forgotten_reader(scene):
    scene.use_clock()
    siwatch = scene.begin()
    before = siwatch.scrape()
    reader = scene.connect()
    reader.execute("BEGIN")
    reader.execute("SELECT COUNT(*) FROM grant_log").fetchall()
    scene.grant(scene.sign_ins(1))
    # siwatch looks once a minute, and warns when the transaction has stood for another.
    until("siwatch warns of the transaction", lambda: siwatch.says("event=log_pinned"), 200)
    after = siwatch.scraped("a pinned log", lambda s: s.value("log_pinned_since_timestamp_seconds"))
    scene.travel(31 * MINUTE)
    return one(before, after)


@walk("SiwatchLogPinned", variant="server", quotes=["a transaction keeps erased data readable", "siwatch_log_pinned_since_timestamp_seconds", "idle in transaction"],
      # It is a trouble after half an hour, by the clock of the server, which no walk can step.
      sql="oncall", severity="note")
def a_forgotten_transaction_on_a_server(scene):
    server = Server(scene)
    siwatch = scene.begin(url=server.url)
    server.sql("CREATE ROLE oncall LOGIN SUPERUSER")
    before = siwatch.scrape()
    server.hold("SELECT pg_current_xact_id()", "oncall")
    return one(before, siwatch.scraped("a transaction that stands", lambda s: s.value("log_pinned_since_timestamp_seconds"), 150))


@walk("SiwatchBackupOld", quotes=["siwatch backup last wrote a copy", "there is no space left"])
def an_old_backup(scene):
    scene.use_clock()
    siwatch = scene.begin()
    scene.must("backup", str(scene.folder / "copy.sqlite"))
    before = siwatch.scrape()
    siwatch.stop()
    scene.travel(3 * DAY)
    scene.mend = lambda: scene.must("backup", str(scene.folder / "another.sqlite"))
    full = scene.mount("full", "64k")
    scene.commands.append(["backup", str(full / "copy.sqlite")])
    return one(before, scene.start().scrape(), step=15, lead=300)


# MARK: Configuration and resources

@walk("SiwatchFinding", quotes=["would not start again"])
def a_key_that_is_gone(scene):
    siwatch = scene.begin()
    before = siwatch.scrape()
    key = scene.folder / "siwatch.key"
    text = key.read_text()
    key.unlink()
    after = siwatch.scraped("the key is missed", lambda s: s.value("findings", severity="degraded") > 0)

    def put_back():
        scene.write("siwatch.key", text)
        key.chmod(0o600)

    scene.mend = put_back
    return one(before, after)


@walk("SiwatchFinding", variant="reload", quotes=["was not taken over"], says=["event=reload_failed"])
def a_broken_file(scene):
    siwatch = scene.begin()
    before = siwatch.scrape()
    good = (scene.folder / "siwatch.toml").read_text()
    scene.write("siwatch.toml", good.replace("team_id", "team_ids"))
    siwatch.process.send_signal(signal.SIGHUP)
    after = siwatch.scraped(
        "the reload fails and is a finding", lambda s: s.value("config_last_reload_successful") == 0 and s.value("findings", severity="degraded"), 150
    )
    # The command asks the daemon at the usual socket while the file is broken. This daemon has a socket of its own.
    scene.write("siwatch.toml", good)
    scene.mend = lambda: siwatch.process.send_signal(signal.SIGHUP)
    return one(before, after)


class Receiver(http.server.ThreadingHTTPServer):
    """A receiver of webhooks. It refuses the bodies in which `refused` stands, or all of them."""
    refused = b""

    class Request(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            self.send_response(404 if self.server.refused in body else 204)
            self.end_headers()

        def log_message(self, *_):
            pass

    def __init__(self, scene):
        super().__init__(("127.0.0.1", 0), self.Request)
        threading.Thread(target=self.serve_forever, daemon=True).start()
        scene.ending.callback(self.shutdown)
        scene.write("hook.whsec", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")
        url = f"http://127.0.0.1:{self.server_port}/hook"
        self.table = {"[delivery]": f'name = "backend"\nurl = "{url}"\nsecret_files = ["hook.whsec"]'}


def begin_with_door(scene):
    """siwatch with a door, and what asks there as a backend."""
    token = "t" * 44
    scene.write("backend.token", token)
    client = '[[http.client]]\nname = "backend"\ntoken_files = ["backend.token"]\nmay = ["read"]'
    siwatch = scene.begin({"http": f'listen = "127.0.0.1:0"\n{client}'})
    door = re.search(r"event=door_open.* address=(\S+)", siwatch.log)[1]
    return siwatch, lambda path: fetch(f"http://{door}{path}", headers={"Authorization": f"Bearer {token}"})


@walk("SiwatchDoorUseless", quotes=["the HTTP door refused", "and has served none since its start"], says=["event=requests_refused"])
def a_backend_in_seconds(scene):
    siwatch, ask = begin_with_door(scene)
    before = siwatch.scrape()
    for _ in range(6):
        ask("/v1/users/ann/ends-session?signed_in_at=1795714408")
    return one(before, siwatch.scraped("a useless door", lambda s: s.value("http_refusals", client="backend") == 2))


@walk("SiwatchRequestsRefused", quotes=["the HTTP door refused", "within ten minutes", "The HTTP door refuses what a client asks"],
      says=["event=requests_refused"])
def a_backend_without_a_parameter(scene):
    siwatch, ask = begin_with_door(scene)
    before = siwatch.scrape()
    for path in ["/v1/changes"] + ["/v1/users/ann/ends-session"] * 6:
        ask(path)
    return one(before, siwatch.scraped("refusals", lambda s: s.value("http_refusals", client="backend") == 1))


# It is a page after a quarter of an hour, and a finding at once.
@walk("SiwatchDeliveryBehind", quotes=["takes no webhooks since", "status 404"], says=["event=delivery_failed"], severity="degraded")
def a_receiver_that_refuses(scene):
    siwatch = scene.begin(Receiver(scene).table)
    before = siwatch.scrape()
    scene.grant(scene.sign_ins(4))
    until("a failed delivery", lambda: siwatch.says("event=delivery_failed"))
    return one(before, siwatch.scraped("changes behind", lambda s: s.value("delivery_behind")))


@walk("SiwatchDeliveryRefused", cause="waiting", quotes=["did not take"])
def a_receiver_that_refuses_one(scene):
    receiver = Receiver(scene)
    siwatch = scene.begin(receiver.table)
    people = scene.sign_ins(4)
    receiver.refused = people[0]["user_id"].encode()
    before = siwatch.scrape()
    scene.grant(people)
    until("a change that waits", lambda: scene.one("SELECT COUNT(*) FROM delivery_retry"))
    # As if it had waited for a day.
    scene.sql(f"UPDATE credential_change SET recorded_at = recorded_at - {25 * HOUR * 1000}")
    late = siwatch.scraped("an old change", lambda s: 0 < s.value("delivery_oldest_timestamp_seconds") < time.time() - DAY)
    return one(before, late, step=5, lead=26 * HOUR // (5 * MINUTE))


@walk("SiwatchLogLost", quotes=["the log has lost"])
def the_disk_of_the_log_is_full(scene):
    scene.set_up()
    place = scene.mount("logs", "256k")
    (scene.folder / "siwatch.log").symlink_to(place / "siwatch.log")
    siwatch = scene.start()
    before = siwatch.scrape()
    scene.fill_disk(place)
    # More lines than the last page of the log has room for.
    scene.tell_codes([{**s, "client_id": "com.example.web"} for s in scene.sign_ins(40, credential="authorization_code")])
    return one(before, siwatch.scraped("lost lines", lambda s: s.value("log_lines_dropped_total")))


@walk("SiwatchFinding", variant="files", quotes=["file descriptors are open"])
def few_descriptors(scene):
    scene.set_up()
    siwatch = scene.start(wrap=["prlimit", "--nofile=96:96"])
    before = siwatch.scrape()
    host, port = siwatch.url.removeprefix("http://").split(":")

    # siwatch closes connections that ask nothing, and counts its findings once a minute.
    def look():
        scrape = siwatch.scrape()
        open_now, most = (scrape.samples[name, ""] for name in ("process_open_fds", "process_max_fds"))
        for _ in range(math.ceil(most * 0.87 - open_now)):
            scene.ending.callback(socket.create_connection((host, int(port)), 10).close)
        return scrape if scrape.value("findings", severity="degraded") else None
    return one(before, until("many open files are a finding", look, 150, pause=1))


def find_promtool():
    own = ROOT / ".build/tools/promtool"
    return str(own) if own.exists() else shutil.which("promtool")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--siwatch", required=True)
    parser.add_argument("--simulator", required=True)
    parser.add_argument("--promtool", default=find_promtool())
    parser.add_argument("--jobs", type=int, default=6, help="walks at a time")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="the walks whose name holds this; repeat it for others")
    parser.add_argument("--verbose", action="store_true", help="also print what status said, and all alerts that fired")
    parser.add_argument("--list", action="store_true", help="name the walks and end")
    options = parser.parse_args()
    rules = read_rules()
    sections, sql = read_runbooks()
    slow = {"SiwatchLogPinned", "SiwatchNotificationsLate", "SiwatchQuarantineGrowing", "SiwatchSigningKeysMissing", "SiwatchForeignCheckpoints",
            "SiwatchFinding"}
    # Those that wait for siwatch's housekeeping begin, because they take the longest.
    walks = [w for w in sorted(WALKS, key=lambda w: w.alert not in slow) if not options.only or any(only in w.name for only in options.only)]
    if options.list:
        print("\n".join(w.name for w in walks))
        return 0
    walked = {(w.alert, w.cause) for w in WALKS}
    causes = {(rule.alert, cause) for rule in rules.values() for cause in rule.causes}
    failures = 0

    def fail(sentence):
        nonlocal failures
        failures += 1
        print(f"FAIL {sentence}", flush=True)

    for alert, cause in causes - walked - set(NOT_WALKED):
        fail(f"{alert} ({cause}) is neither walked nor listed in NOT_WALKED")
    for alert, cause in (walked | set(NOT_WALKED)) - causes:
        fail(f"{alert} ({cause}) is no alert of the rules")
    for alert, cause in walked & set(NOT_WALKED):
        fail(f"{alert} ({cause}) is walked, and listed in NOT_WALKED")
    for alert in rules:
        for words in uncompared(alert, sections.get(alert)):
            fail(f"{alert}: no walk compares {words!r} of the runbook with what siwatch says")
    if not options.promtool:
        raise SystemExit("walk_runbooks: promtool is missing: run scripts/setup.sh promtool")
    with tempfile.TemporaryDirectory(prefix="siwatch-walk-libraries-", dir="/tmp") as folder:
        libraries = pathlib.Path(folder)
        os.chmod(libraries, 0o755)
        tools = Tools(os.path.realpath(options.siwatch), os.path.realpath(options.simulator), options.promtool,
                      build(libraries, "clock", clock_source()), build(libraries, "slow_disk", SLOW_DISK), Account())
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            going = {pool.submit(take, w, tools, rules, sections, sql): w for w in walks}
            for done in concurrent.futures.as_completed(going):
                w, (faults, said) = going[done], done.result()
                findings = [f for f in said.document["findings"] if f["severity"] != "note"] if said else []
                worst = findings[0]["sentence"] if findings else "nothing above a note"
                line = f"{w.name}: status {said.status.code if said else '–'}, {' '.join(worst.split())[:100]}, "
                line += f"{'mended, ' if w.mended else ''}{w.seconds:.0f} s"
                if faults:
                    fail("\n       ".join([line, *faults]))
                else:
                    print(f"ok   {line}", flush=True)
                if options.verbose and said:
                    print(f"       fired: {', '.join(sorted(w.fired))}\n       " + said.status.text.strip().replace("\n", "\n       "), flush=True)
    print(f"{len(walked)} causes of {len(rules)} alerts have walks, {len(NOT_WALKED)} do not; {len(walks)} walks taken, {failures} failures")
    for (alert, cause), reason in NOT_WALKED.items():
        print(f"not walked: {alert} ({cause}): {reason}")
    for alert, words in sorted(NOT_COMPARED.items()):
        for quote, reason in words.items():
            print(f"not compared: {alert}: {quote!r}: {reason}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
