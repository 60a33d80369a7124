#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
"""Signs in to each backend of Examples/ as a user does, and sees it end the session, refuse what is forged, and delete the account.

    scripts/test_examples.py [--python FILE] [--serve] [--verbose] SIWATCH SIWATCH-SIMULATOR [NAME]...

Starts a simulated Apple, a siwatch with the HTTP door on an SQLite file, one on a PostgreSQL server of its own for the examples that need
it, and one backend after the other, all on loopback. Webhooks pass through this script, so that it can lose them.

Without a NAME it tests all examples, and skips those whose language or library is missing: it says which, and how to install it. A NAME that
cannot be tested is a failure. Ends with 1 after any failure, with 2 if nothing was tested. --python has the libraries of the Python examples.
--serve starts the backend NAME, says how to sign in to it with curl, and leaves it to you until Ctrl-C.
"""
import argparse, base64, contextlib, hashlib, hmac, http.client, http.server, json, os, pathlib, pwd, re, shutil, signal, socket, subprocess
import sys, tempfile, threading, time, uuid

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "Examples"
CLIENT_ID = "com.example.app"
ROLES = """
CREATE ROLE siwatch_backend NOLOGIN; CREATE ROLE siwatch_reader NOLOGIN; CREATE ROLE siwatch_notifications NOLOGIN;
CREATE ROLE siwatch_grants NOLOGIN; CREATE ROLE siwatch_revocations NOLOGIN;
CREATE ROLE backend LOGIN CREATEDB; GRANT siwatch_backend TO backend; ALTER ROLE backend SET search_path TO public, siwatch;
GRANT CREATE ON SCHEMA public TO backend;
"""


class Failed(Exception):
    """An example, or what it needs, did not do what it has to."""


class Missing(Exception):
    """An example cannot be tested here. Says what is missing, and how to install it."""


def until(what, look, limit=30, pause=0.05):
    """The first true answer of `look`. Looks again and again, and gives up after `limit` seconds."""
    end = time.monotonic() + limit
    while True:
        answer = look()
        if answer:
            return answer
        if time.monotonic() > end:
            raise Failed(f"{what}: not within {limit} seconds")
        time.sleep(pause)


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def call(method, url, body=None, headers=None):
    """Status, members of the JSON answer, and the headers. Follows no redirect. Status 0: nobody answers."""
    host, _, path = url.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host, timeout=30)
    content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    try:
        connection.request(method, "/" + path, content, {"Content-Type": "application/json", **(headers or {})})
        response = connection.getresponse()
        text = response.read()
    except (OSError, http.client.HTTPException):
        return 0, {}, None
    finally:
        connection.close()
    try:
        members = json.loads(text)
    except ValueError:
        members = {}
    return response.status, members if isinstance(members, dict) else {}, response.headers


class Processes:
    """Everything that this script starts. Ends it at the end, and nothing else."""

    def __init__(self, folder):
        self.folder, self.started = folder, []

    def start(self, name, arguments, **options):
        log = open(self.folder / f"{name}.log", "ab")
        process = subprocess.Popen([str(a) for a in arguments], stdin=subprocess.DEVNULL, stdout=options.pop("stdout", log), stderr=log,
                                   start_new_session=True, **options)
        process.log = self.folder / f"{name}.log"
        self.started.append(process)
        return process

    def stop(self, process, by=signal.SIGTERM):
        self.started.remove(process)
        if process.poll() is not None:
            # Its number may be that of another process by now.
            return
        # A server of a framework may have children: its group ends with it.
        os.killpg(process.pid, by)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def stop_all(self):
        for process in reversed(list(self.started)):
            self.stop(process, signal.SIGINT)


# MARK: What surrounds a backend

class Apple:
    """The simulated Apple."""

    def __init__(self, processes, program):
        folder = processes.folder
        with open(folder / "apple.toml", "wb") as config:
            processes.start("apple", [program, "--print-config"], cwd=folder, stdout=config)
        self.config = until("the simulated Apple starts", lambda: "keys_endpoint" in (text := (folder / "apple.toml").read_text()) and text)
        self.url = self.config.split("listening on ", 1)[1].split()[0]

    def ask(self, path, body):
        status, answer, _ = call("POST", f"{self.url}/simulator/{path}", body)
        if status != 200:
            raise Failed(f"the simulated Apple answers {path} with {status}: {answer}")
        return answer

    def new_user(self):
        return self.ask("users", {"count": 1, "credential": "authorization_code"})["sign_ins"][0]

    def sign_in_again(self, user_id):
        return self.ask("sign-ins", {"user_ids": [user_id], "credential": "authorization_code"})["sign_ins"][0]

    def withdraw_consent(self, user_id):
        """What Apple posts then."""
        return self.ask("consent-revocations", {"user_ids": [user_id]})["notifications"][0]["body"].encode()


class Road(http.server.BaseHTTPRequestHandler):
    """Where siwatch sends its webhooks. Hands them to the backend, or loses them."""

    port, loses, delivered = None, False, []

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = 200
        if Road.port and not Road.loses:
            names = ("webhook-id", "webhook-timestamp", "webhook-signature", "content-type")
            status = call("POST", f"http://127.0.0.1:{Road.port}/siwatch", body, {n: self.headers[n] for n in names if self.headers[n]})[0]
            Road.delivered.append((status, json.loads(body)))
        self.send_response(status or 503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Line:
    """The line from a backend to the door, byte by byte. While it is cut, nobody reaches siwatch; while it is frozen, nobody is answered.

    spoils: changes what passes, so that the backend seems to have made a mistake.
    """

    def __init__(self, to):
        self.to, self.open = to, set()
        self.mend()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.take, daemon=True).start()

    def take(self):
        while True:
            near = self.listener.accept()[0]
            far = None if self.is_cut else socket.create_connection(self.to)
            if not far:
                near.close()
                continue
            self.open |= {near, far}
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self.pump, args=(one, other, one is near), daemon=True).start()

    def pump(self, one, other, goes_in):
        with contextlib.suppress(OSError):
            while content := one.recv(65536):
                while self.is_frozen:
                    time.sleep(0.02)
                other.sendall(self.spoils(content) if goes_in else content)
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self.open -= {one, other}

    def mend(self):
        self.is_cut, self.is_frozen, self.spoils = False, False, lambda content: content

    def cut(self):
        self.is_cut = True
        for end in list(self.open):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class Siwatch:
    """A siwatch with a door, on an SQLite file or a PostgreSQL database."""

    def __init__(self, processes, name, program, apple, road, database=None):
        self.program, self.folder = program, processes.folder / name
        self.folder.mkdir()
        config = apple.config.replace(f'"{processes.folder}/siwatch.', f'"{self.folder}/siwatch.')
        if database:
            config = config.replace(f'path = "{self.folder}/siwatch.sqlite"', f'url = "{database}"')
        self.file = self.folder / "siwatch.sqlite"
        config += f"""
[operations]
listen = ""
socket = ""
[log]
format = "text"
[http]
listen = "127.0.0.1:0"
max_requests_per_second = 1000000
[[http.client]]
name = "backend"
token_files = ["backend.token"]
may = ["notify", "sign_in", "delete", "read"]
[[delivery]]
name = "backend"
url = "{road}/siwatch"
secret_files = ["backend.whsec"]
"""
        self.config = self.folder / "siwatch.toml"
        self.config.write_text(config)
        self.run("secret", "new", "token", self.folder / "backend.token")
        self.run("secret", "new", "webhook", self.folder / "backend.whsec")
        self.run("migrate", "--config", self.config)
        self.process = processes.start(name, [program, "run", "--config", self.config])
        log = self.process.log
        until(f"{name} is ready", lambda: "event=ready" in log.read_text() or self.died(log), limit=60)
        address = log.read_text().split("event=door_open address=", 1)[1].split()[0]
        self.url = f"http://{address}"
        host, _, port = address.rpartition(":")
        self.line = Line((host, int(port)))
        self.token, self.secret = ((self.folder / f"backend.{kind}").read_text().strip() for kind in ("token", "whsec"))

    def died(self, log):
        if self.process.poll() is not None:
            raise Failed(f"siwatch does not start:\n{log.read_text()}")

    def run(self, *arguments):
        done = subprocess.run([str(a) for a in (self.program, *arguments)], capture_output=True, text=True)
        if done.returncode:
            raise Failed(f"siwatch {' '.join(map(str, arguments))}: {done.stderr}")

    def signed_in_at(self, user_id):
        return call("GET", f"{self.url}/v1/users/{user_id}", headers={"Authorization": f"Bearer {self.token}"})[1]["changed_at"]

    def take(self, notification):
        """As Apple posts it, through a reverse proxy."""
        status, answer, _ = call("POST", f"{self.url}/apple/notifications", notification)
        if status != 200:
            raise Failed(f"siwatch answers Apple with {status}: {answer}")


class Postgres:
    """A PostgreSQL server on a socket in a folder of its own. It refuses to run as root, so root runs it as nobody."""

    def __init__(self, processes):
        programs = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3]))
        found = programs[-1] if programs else shutil.which("initdb")
        if not found:
            raise Missing("PostgreSQL's server is not installed: scripts/setup.sh postgres")
        programs, self.folder = pathlib.Path(found).parent, processes.folder / "postgres"
        self.folder.mkdir()
        who = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            who = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            processes.folder.chmod(0o711)
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
        made = processes.start("initdb", [programs / "initdb", "-D", "data", "-U", "siwatch", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"],
                               cwd=self.folder, **who)
        if made.wait(120):
            raise Failed(f"initdb: {made.log.read_text()}")
        self.psql = programs / "psql"
        settings = (f"unix_socket_directories={self.folder}", "listen_addresses=", "shared_buffers=32MB", "fsync=off")
        processes.start("postgres", [programs / "postgres", "-D", "data", *[x for s in settings for x in ("-c", s)]], cwd=self.folder, **who)
        until("PostgreSQL answers", lambda: self.run("SELECT 1").returncode == 0)
        statements = [ROLES]
        for name in ("example", "siwatch_template"):
            statements += [f"CREATE DATABASE {name} OWNER backend"]
        for statement in statements:
            if (done := self.run(statement)).returncode:
                raise Failed(f"psql: {done.stderr}")

    def url(self, database):
        return f"postgresql://siwatch@/{database}?host={self.folder}"

    def run(self, statement):
        return subprocess.run([str(self.psql), "-qAt", "-v", "ON_ERROR_STOP=1", "-c", statement, f"host={self.folder} user=siwatch dbname=postgres"],
                              capture_output=True, text=True)


def webhook(secret, event, at=None, id=None):
    """The headers and the body of a webhook, by Standard Webhooks."""
    body = json.dumps(event).encode()
    id, at = id or f"msg_{uuid.uuid4().hex}", str(int(at or time.time()))
    code = hmac.digest(base64.b64decode(secret.removeprefix("whsec_")), f"{id}.{at}.".encode() + body, hashlib.sha256)
    return {"webhook-id": id, "webhook-timestamp": at, "webhook-signature": "v1," + base64.b64encode(code).decode()}, body


def ending(user_id, before, kind="credential.revoked"):
    data = {"app": "example", "change_id": "1-mh6ev6r4", "client_id": CLIENT_ID, "ends_sessions_before": before, "occurred_at": before,
            "reason": "consent_revoked", "user_id": user_id}
    return {"data": data, "timestamp": "2026-11-26T17:33:50.012Z", "type": kind}


# MARK: The examples

class Example:
    """How to start an example.

    - command: of the server; `{port}` stands for its port.
    - needs: raises Missing if the language or a library is not there.
    - prepares: runs before the server. May change the environment, and name another folder to start the server in.
    - store: which database a backend by SQL speaks to, `sqlite` or `postgres`. Such a backend has no webhook receiver.
    """

    def __init__(self, folder, command, needs, prepares=None, store=None):
        self.folder, self.command, self.needs, self.prepares, self.store = EXAMPLES / folder, command, needs, prepares, store


def python_has(*modules, install):
    """A module is a name, or a pair: what to import, and what to call it."""
    def look():
        for module in modules:
            module, name = module if isinstance(module, tuple) else (module, module)
            if subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True).returncode:
                raise Missing(f"Python has no {name}: pip install {install}")
    return look


def has(program, words):
    def look():
        if not shutil.which(program):
            raise Missing(words)
    return look


def run_first(*commands):
    def prepare(processes, example, environment):
        for command in commands:
            here = [a.format(folder=processes.folder, python=PYTHON) for a in command]
            done = subprocess.run(here, cwd=example.folder, env=environment, capture_output=True, text=True)
            if done.returncode:
                raise Failed(f"{' '.join(here)}:\n{done.stdout}{done.stderr}")
    return prepare


def needs_fastapi_sql(driver):
    package = "'psycopg[binary]'" if driver == "psycopg" else driver
    return python_has("fastapi", "uvicorn", "sqlalchemy", "greenlet", driver, install=f"fastapi uvicorn sqlalchemy greenlet {package}")


def django_sql(store):
    settings, database = "--settings=settings_sql", "siwatch" if store == "sqlite" else "default"
    manage = ["{python}", "manage.py"]
    needs = needs_django if store == "sqlite" else all_of(needs_django, python_has("psycopg", install="'psycopg[binary]'"))
    return Example("django", [*manage, "runserver", settings, "--noreload", "{port}"], needs, run_first(
        [*manage, "migrate", settings, "--verbosity", "0"],
        [*manage, "check", settings, "--database", database],
        [*manage, "test", settings],
    ), store)


def all_of(*looks):
    return lambda: [look() for look in looks]


def has_ruby(*libraries, install):
    def look():
        has("ruby", f"ruby is not installed: apt-get install ruby {install}")()
        for library in libraries:
            if subprocess.run(["ruby", "-e", f"require '{library}'"], capture_output=True).returncode:
                raise Missing(f"Ruby has no {library}: apt-get install {install}")
    return look


# Where Debian's node-express puts it.
DEBIAN_EXPRESS = pathlib.Path("/usr/share/nodejs/express")


def needs_express():
    has("node", "node is not installed: apt-get install nodejs node-express")()
    if not (EXAMPLES / "express/node_modules/express").exists() and not DEBIAN_EXPRESS.exists():
        raise Missing("Express is not installed: apt-get install node-express, or npm install in Examples/express")


def link_express(processes, example, environment):
    """Without an `npm install`, a copy of the example finds Debian's Express."""
    if (example.folder / "node_modules/express").exists():
        return None
    copy = processes.folder / "express-debian"
    (copy / "node_modules").mkdir(parents=True)
    for name in ("app.js", "package.json"):
        shutil.copy(example.folder / name, copy)
    (copy / "node_modules/express").symlink_to(DEBIAN_EXPRESS)
    (copy / "node_modules/siwatch").symlink_to(ROOT / "Clients/javascript")
    # Debian's own node looks there by itself.
    environment["NODE_PATH"] = str(DEBIAN_EXPRESS.parent)
    return copy


needs_fastapi = python_has("fastapi", "uvicorn", "httpx", install="fastapi uvicorn httpx")
needs_django = python_has(("django.db.models.fields.composite", "Django 5.2 or newer"), install="'Django>=5.2'")


def tested(programs):
    """The examples by name. `programs` is the folder of those that SwiftPM has built."""
    uvicorn = ["{python}", "-m", "uvicorn", "--host", "127.0.0.1", "--port", "{port}", "--log-level", "warning"]
    return {
        "fastapi": Example("fastapi", [*uvicorn, "app:app"], needs_fastapi),
        "fastapi-sql": Example("fastapi", [*uvicorn, "app_sql:app"], needs_fastapi_sql("aiosqlite"), store="sqlite"),
        "fastapi-sql-postgres": Example("fastapi", [*uvicorn, "app_sql:app"], needs_fastapi_sql("psycopg"), store="postgres"),
        "django": Example("django", ["{python}", "manage.py", "runserver", "--noreload", "{port}"], needs_django,
                          run_first(["{python}", "manage.py", "migrate", "--verbosity", "0"])),
        "django-sql": django_sql("sqlite"),
        "django-sql-postgres": django_sql("postgres"),
        "express": Example("express", ["node", "app.js"], needs_express, link_express),
        "ruby": Example("ruby", ["ruby", "app.rb"], has_ruby("sinatra/base", "puma", install="ruby-sinatra puma")),
        "ruby-sql": Example("ruby", ["ruby", "by_sql.rb"], has_ruby("sinatra/base", "puma", "sqlite3", install="ruby-sinatra puma ruby-sqlite3"),
                            run_first(["ruby", "by_sql_test.rb"]), "sqlite"),
        "go": Example("go", ["{folder}/example-go"], has("go", "go is not installed: apt-get install golang"),
                      run_first(["go", "build", "-o", "{folder}/example-go", "."])),
        "hummingbird": Example("hummingbird", [str(programs / "hummingbird-backend")], has(
            programs / "hummingbird-backend", "it is not built: make test-examples builds it")),
    }


# MARK: A user

class Browser:
    """What a user's device keeps and sends: cookies, and the token that Django asks for."""

    def __init__(self, url):
        self.url, self.cookies = url, {}

    def __call__(self, method, path, body=None):
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())} if self.cookies else {}
        if "csrftoken" in self.cookies:
            headers["X-CSRFToken"] = self.cookies["csrftoken"]
        status, members, answered = call(method, self.url + path, body, headers)
        for line in (answered.get_all("Set-Cookie") if answered else None) or []:
            name, _, value = line.split(";")[0].partition("=")
            self.cookies[name.strip()] = value.strip()
        return status, members


class Walk:
    """A user of one example, from the first sign-in to the receipt."""

    def __init__(self, name, example, siwatch, apple, port):
        self.name, self.example, self.siwatch, self.apple, self.url = name, example, siwatch, apple, f"http://127.0.0.1:{port}"

    def say(self, words):
        print(f"{self.name}: {words}", flush=True)

    def expect(self, words, answer, *statuses):
        status, members = answer[:2]
        if status not in statuses:
            raise Failed(f"{words}: expected {' or '.join(map(str, statuses))}, and it answers {status} {members or ''}")
        return members

    def sign_in(self, browser, signed):
        body = {"code": signed["authorization_code"]}
        members = self.expect("a sign-in", browser("POST", "/sign-in", body), 200)
        if members.get("user_id") != signed["user_id"]:
            raise Failed(f"a sign-in of {signed['user_id']} is answered with {members}")
        me = self.expect("/me after a sign-in", browser("GET", "/me"), 200)
        if me.get("user_id") != signed["user_id"]:
            raise Failed(f"/me of {signed['user_id']} is answered with {me}")

    def post(self, headers, body):
        return call("POST", f"{self.url}/siwatch", body, headers)

    def sign_ins(self):
        user, browser = self.apple.new_user(), Browser(self.url)
        self.expect("/me of a stranger", browser("GET", "/me"), 401)
        self.expect("/me with a made-up session", call("GET", f"{self.url}/me", headers={"Cookie": "session=x; sessionid=x; rack.session=x"}), 401)
        self.sign_in(browser, user)
        self.say("a user signs in by a code, and /me knows the user")
        # A thief has the code, not the session.
        reason = self.expect("a replayed code", Browser(self.url)("POST", "/sign-in", {"code": user["authorization_code"]}), 401).get("reason")
        if reason != "code_used":
            raise Failed(f"a replayed code is refused as {reason}, and not as code_used")
        self.expect("a made-up code", Browser(self.url)("POST", "/sign-in", {"code": "c0.made.up"}), 401)
        for body in ({}, {"code": ""}, {"code": 7}, {"code": "a\0b"}, {"code": "a b"}, {"code": "c", "nonce": "\n"}, {"code": "c\n"}, [], b"{"):
            self.expect(f"a sign-in with {body!r} in place of a code", Browser(self.url)("POST", "/sign-in", body), 400, 422)
        self.expect("/me after others have tried", browser("GET", "/me"), 200)
        self.say("a replayed code and a made-up code sign nobody in")
        return user, browser

    def webhooks(self, user, browser):
        """Forged ones, harmless ones, and one that ends the session: siwatch itself says `authorized` all the while."""
        user_id, at = user["user_id"], self.siwatch.signed_in_at(user["user_id"])
        secret, forger = self.siwatch.secret, "whsec_" + base64.b64encode(b"f" * 32).decode()
        ends = ending(user_id, at + 1)
        headers, body = webhook(secret, ends)
        self.expect("a webhook with another body", self.post(headers, body + b" "), 400)
        self.expect("a webhook with another id", self.post({**headers, "webhook-id": "msg_0"}, body), 400)
        self.expect("a webhook without a signature", self.post({k: v for k, v in headers.items() if k != "webhook-signature"}, body), 400)
        self.expect("a webhook without a body", self.post(headers, None), 400)
        self.expect("a webhook without headers", self.post({}, body), 400)
        self.expect("a webhook by another secret", self.post(*webhook(forger, ends)), 400)
        self.expect("a webhook of an hour ago", self.post(*webhook(secret, ends, at=time.time() - 3600)), 400)
        self.expect("/me after forged webhooks", browser("GET", "/me"), 200)
        self.say("forged and old webhooks are answered with 400, and the session goes on")
        self.siwatch.run("delivery", "test", "--config", self.siwatch.config, "backend")
        for before in (None, at, at - 1):
            self.expect("a webhook that ends nothing", self.post(*webhook(secret, ending(user_id, before))), 200, 202, 204)
        self.expect("a webhook of another user", self.post(*webhook(secret, ending("000000.nobody.0000", at + 1))), 200, 202, 204)
        self.expect("a webhook of an unknown type", self.post(*webhook(secret, {"type": "new", "data": {}})), 200, 202, 204)
        self.expect("/me after webhooks that end nothing", browser("GET", "/me"), 200)
        self.say("siwatch's test event and webhooks of older ends end nothing")
        headers, body = webhook(secret, {**ends, "type": "credential.account_deleted"})
        headers["webhook-signature"] = "v1,AAAA " + headers["webhook-signature"]
        self.expect("a webhook with two signatures", self.post(headers, body), 200, 202, 204)
        self.expect("/me after the webhook that ends the session", browser("GET", "/me"), 401)
        self.expect("a webhook told twice", self.post(headers, body), 200, 202, 204)
        self.say("a webhook ends the session")

    def withdrawals(self, browser, user_id):
        self.sign_in(browser, self.apple.sign_in_again(user_id))
        self.say("the user signs in again, and an older end does not touch the new session")
        if not self.example.store:
            self.siwatch.line.cut()
            self.expect("/me while siwatch is away", browser("GET", "/me"), 200)
            self.expect("/apple/notifications while siwatch is away", call("POST", f"{self.url}/apple/notifications", b"{}"), 502, 503)
            self.siwatch.line.mend()
            self.say("siwatch is away: the session goes on, and Apple is asked to come again")
        Road.loses = True
        self.siwatch.take(self.apple.withdraw_consent(user_id))
        until("the next request ends the session", lambda: browser("GET", "/me")[0] == 401)
        Road.loses = False
        self.say(f"consent is withdrawn{', the webhook is lost' if not self.example.store else ''}: a next request ends the session")

        user, browser = self.apple.new_user(), Browser(self.url)
        self.sign_in(browser, user)
        notification = self.apple.withdraw_consent(user["user_id"])
        self.expect("a notification", call("POST", f"{self.url}/apple/notifications", notification), 200)
        self.expect("a notification told twice", call("POST", f"{self.url}/apple/notifications", notification), 200)
        until("the session ends after the backend's own endpoint took the notification", lambda: browser("GET", "/me")[0] == 401)
        self.say("Apple posts to the backend's own endpoint: the session ends")
        if not self.example.store:
            def answers():
                return [status for status, event in Road.delivered
                        if event["type"] == "credential.revoked" and event["data"]["user_id"] == user["user_id"]]
            answer = until("siwatch's own webhook", answers)[0]
            if not 200 <= answer <= 299:
                raise Failed(f"siwatch's own webhook is answered with {answer}")
            self.say("siwatch's own webhook is taken")

    def deletion(self):
        user, browser, other = self.apple.new_user(), Browser(self.url), Browser(self.url)
        self.expect("a deletion by a stranger", Browser(self.url)("DELETE", "/account"), 401, 403)
        self.sign_in(browser, user)
        self.sign_in(other, self.apple.sign_in_again(user["user_id"]))
        path = self.expect("a deletion", browser("DELETE", "/account"), 202).get("receipt")
        for one in (browser, other):
            self.expect("/me after the deletion", one("GET", "/me"), 401)
        self.expect("a made-up receipt", Browser(self.url)("GET", path[:-4] + "0000"), 404)
        receipt = until("the receipt is done", lambda: (r := Browser(self.url)("GET", path)[1]).get("outcome") == "done" and r)
        outcomes = [token["outcome"] for token in receipt["tokens"]]
        if not outcomes or set(outcomes) != {"proved"}:
            raise Failed(f"the receipt does not prove the revocation: {receipt}")
        self.say(f"the account is deleted, all its sessions with it, and the receipt is done: {len(outcomes)} token(s) proved")

    def mistakes(self):
        """Seconds in place of milliseconds, and a wrong token. A backend that swallows siwatch's answer ends no session, and nobody hears of it."""
        user, browser, line, token = self.apple.new_user(), Browser(self.url), self.siwatch.line, self.siwatch.token.encode()
        self.sign_in(browser, user)
        line.spoils = lambda content: re.sub(rb"(signed_in_at=\d{10})\d{3}", rb"\1", content)
        self.expect("/me with a signed_in_at in seconds", browser("GET", "/me"), 500)
        line.spoils = lambda content: content.replace(token, token[::-1])
        self.expect("/me with a wrong token", browser("GET", "/me"), 500)
        self.expect("a deletion with a wrong token", browser("DELETE", "/account"), 500)
        code = {"code": self.apple.new_user()["authorization_code"]}
        self.expect("a sign-in with a wrong token", Browser(self.url)("POST", "/sign-in", code), 500)
        line.mend()
        self.expect("/me once the mistake is mended", browser("GET", "/me"), 200)
        self.say("a time in seconds and a wrong token are errors that somebody sees")
        return browser

    def absence(self, browser):
        line, begun = self.siwatch.line, time.monotonic()
        line.is_frozen = True
        for _ in range(20):
            self.expect("/me while siwatch is frozen", browser("GET", "/me"), 200)
        if (took := time.monotonic() - begun) > 6:
            raise Failed(f"while siwatch is frozen, twenty requests take {took:.0f} seconds")
        line.mend()
        line.cut()
        code = {"code": self.apple.new_user()["authorization_code"]}
        self.expect("a sign-in while siwatch is stopped", Browser(self.url)("POST", "/sign-in", code), 503)
        line.mend()
        self.say("siwatch is frozen and stopped: the site goes on, and nobody signs in")

    def go(self):
        user, browser = self.sign_ins()
        if not self.example.store:
            self.webhooks(user, browser)
        self.withdrawals(browser, user["user_id"])
        self.deletion()
        if not self.example.store:
            self.absence(self.mistakes())


# MARK: The run

def serve(walk):
    user = walk.apple.new_user()
    notification = f"{walk.siwatch.url}/apple/notifications"
    print(f"""{walk.name} is at {walk.url}. This code of a simulated user lives five minutes:
  curl -ic jar {walk.url}/sign-in -H 'Content-Type: application/json' -d '{{"code": "{user["authorization_code"]}"}}'
  curl -b jar {walk.url}/me
The user withdraws consent, and siwatch gets Apple's notification:
  curl -s {walk.apple.url}/simulator/consent-revocations -d '{{"user_ids": ["{user["user_id"]}"]}}' |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["notifications"][0]["body"])' | curl -d @- {notification}
Another code:
  curl {walk.apple.url}/simulator/users -d '{{"count": 1, "credential": "authorization_code"}}'
Ctrl-C ends all.""", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        signal.pause()


def test(name, example, processes, site, do):
    example.needs()
    siwatch = site.siwatch(example.store)
    port = free_port()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "Clients/python"), "PYTHONDONTWRITEBYTECODE": "1", "PORT": str(port),
                   "CLIENT_ID": CLIENT_ID, "APP": "example", "SIWATCH_URL": siwatch.line.url, "SIWATCH_TOKEN": siwatch.token, "SIWATCH_WEBHOOK_SECRET": siwatch.secret,
                   "SIWATCH_FILE": str(siwatch.file), "DATA": str(processes.folder / name)}
    if example.store == "sqlite":
        environment["DATABASE_URL"] = f"sqlite+aiosqlite:///file:{siwatch.file}?mode=rw&uri=true"
    if example.store == "postgres":
        environment["DATABASE_URL"] = f"postgresql+psycopg://backend@/example?host={site.postgres.folder}"
        environment |= {"PGHOST": str(site.postgres.folder), "PGUSER": "backend", "PGDATABASE": "example"}
    (processes.folder / name).mkdir()
    prepared = example.prepares(processes, example, environment) if example.prepares else None
    command = [a.format(port=port, python=PYTHON, folder=processes.folder) for a in example.command]
    process = processes.start(name, command, cwd=prepared or example.folder, env=environment)
    try:
        def answers():
            if process.poll() is not None:
                raise Failed("the backend does not start")
            return call("GET", f"http://127.0.0.1:{port}/me")[0]
        until("the backend answers", answers, limit=60)
        Road.port = None if example.store else port
        do(Walk(name, example, siwatch, site.apple, port))
    except Failed:
        sys.stdout.flush()
        sys.stderr.write("".join(f"    {line}\n" for line in process.log.read_text(errors="replace").splitlines()[-25:]))
        raise
    finally:
        Road.port, Road.loses = None, False
        siwatch.line.mend()
        processes.stop(process)


class Site:
    """Apple, and the siwatch that an example needs, each started when it is first needed."""

    def __init__(self, processes, program, simulator):
        self.processes, self.program, self.kept = processes, program, {}
        road = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Road)
        threading.Thread(target=road.serve_forever, daemon=True).start()
        self.road = f"http://127.0.0.1:{road.server_port}"
        self.apple = Apple(processes, simulator)

    def siwatch(self, store):
        database, name = None, "siwatch-postgres" if store == "postgres" else "siwatch"
        if name not in self.kept:
            if store == "postgres":
                self.postgres = Postgres(self.processes)
                database = self.postgres.url("example")
            self.kept[name] = Siwatch(self.processes, name, self.program, self.apple, self.road, database)
            if store == "postgres":
                # Only its tables, for the tests of Django.
                template = self.kept[name].config.with_name("template.toml")
                template.write_text(self.kept[name].config.read_text().replace(database, self.postgres.url("siwatch_template")))
                self.kept[name].run("migrate", "--config", template)
        return self.kept[name]


def main():
    global PYTHON
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("siwatch", type=pathlib.Path)
    parser.add_argument("simulator", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="name")
    options = parser.parse_intermixed_args()
    if options.serve and len(options.names) != 1:
        parser.error("--serve takes one NAME")
    PYTHON = options.python
    examples = tested(options.siwatch.resolve().parent)
    if unknown := set(options.names) - set(examples):
        sys.exit(f"no example is called {', '.join(sorted(unknown))}: there are {', '.join(examples)}")
    passed, failed, skipped = [], [], []
    folder = pathlib.Path(tempfile.mkdtemp(prefix="examples-")).resolve()
    processes = Processes(folder)
    try:
        site = Site(processes, options.siwatch.resolve(), options.simulator.resolve())
        for name in options.names or examples:
            try:
                test(name, examples[name], processes, site, serve if options.serve else lambda walk: walk.go())
                passed.append(name)
            except Missing as reason:
                print(f"{name}: skipped: {reason}", flush=True)
                (failed if options.names else skipped).append(name)
            except Failed as reason:
                print(f"{name}: FAILED: {reason}", flush=True)
                failed.append(name)
    finally:
        processes.stop_all()
        if options.verbose:
            for log in sorted(folder.glob("*.log")):
                sys.stderr.write(f"--- {log.name}\n{log.read_text(errors='replace')}")
        shutil.rmtree(folder, ignore_errors=True)
    results = {"passed": passed, "failed": failed, "skipped": skipped}
    parts = [f"{len(names)} {word}{': ' if names else ''}{', '.join(names)}" for word, names in results.items()]
    print("examples: " + "; ".join(parts))
    sys.exit(1 if failed else 0 if passed else 2)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main()
