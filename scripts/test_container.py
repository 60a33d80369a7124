#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
"""Runs siwatch as the files of packaging/ say, in containers of crun against a simulated Apple, on loopback of its own.

    scripts/test_container.py SIWATCH SIWATCH-SIMULATOR [compose] [sqlite] [postgresql]
    scripts/test_container.py ARCHIVE.tar SIWATCH-SIMULATOR …

For root on Debian, with crun, PyYAML, curl, openssl and PostgreSQL's server. No image is built and no engine runs: scripts/container_root.sh makes
the root of the image, and this script does what Compose, the kubelet and the scheduler would do with the volumes, the secrets, the users and
the probes of the files. Where check-jsonschema and kubernetes-validate are on the PATH, it compares the files with their schemas.

Prints a line for each sentence that holds or does not. Ends with the number of the latter.
"""
import contextlib, json, os, pathlib, re, shutil, signal, subprocess, sys, tarfile, tempfile, time, urllib.error, urllib.request

import yaml

from build_image import instructions

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGING = ROOT / "packaging"
USER, BACKENDS = 10001, 10002
LIMIT = 60_000_000
failures = 0


def holds(sentence, is_true, said=""):
    global failures
    print(f"{'✓' if is_true else '✗'} {sentence}", flush=True)
    if not is_true:
        failures += 1
        print(str(said)[-3000:], flush=True)
    return is_true


def until(look, limit=30):
    """The first true answer of `look`; false after `limit` seconds."""
    end = time.monotonic() + limit
    while not (answer := look()) and time.monotonic() < end:
        time.sleep(0.05)
    return answer


def run(*arguments, check=True, **options):
    return subprocess.run([str(a) for a in arguments], check=check, text=True, capture_output=True, **options)


def mount(*arguments):
    run("mount", *arguments)


def get(url):
    """Status and text; 0 if nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


# MARK: What an engine does


class Image:
    """The root that the Containerfile copies, and its instructions."""

    folder = ROOT / ".build/container/image"

    @classmethod
    def assemble(cls, siwatch):
        cls.folder.parent.mkdir(parents=True, exist_ok=True)
        if siwatch.endswith(".tar"):
            cls.unpack(siwatch)
        else:
            subprocess.run([ROOT / "scripts/container_root.sh", siwatch, cls.folder], check=True)

    @classmethod
    def unpack(cls, archive):
        """Takes the only layer of an OCI archive, as an engine does."""
        def blob(described):
            return packed.extractfile("blobs/" + described["digest"].replace(":", "/"))

        shutil.rmtree(cls.folder, ignore_errors=True)
        cls.folder.mkdir()
        with tarfile.open(archive) as packed:
            manifest = json.load(blob(json.load(packed.extractfile("index.json"))["manifests"][0]))
            subprocess.run(["tar", "-xpz", "--numeric-owner", "-C", cls.folder], input=blob(manifest["layers"][0]).read(), check=True)

    def __init__(self, siwatch):
        said = instructions()
        self.environment = re.findall(r"(\w+=\S+)", " ".join(said["ENV"]))
        self.entrypoint, self.command = json.loads(said["ENTRYPOINT"][0]), json.loads(said["CMD"][0])
        self.user = int(said["USER"][0])
        self.volumes = said["VOLUME"]
        self.health = said["HEALTHCHECK"][0].partition("CMD ")[2]
        # Libraries of a debug build that are no part of the system.
        found = re.findall(r"=> (/\S+)/[^/\s]+ ", run("ldd", siwatch).stdout)
        self.foreign = sorted({library for library in found if not re.match(r"/(usr/)?lib", library)})

    @property
    def size(self):
        archive = subprocess.Popen(["tar", "-C", self.folder, "--sort=name", "-c", "."], stdout=subprocess.PIPE)
        packed = subprocess.Popen(["gzip", "-6"], stdin=archive.stdout, stdout=subprocess.PIPE)
        return sum(len(part) for part in iter(lambda: packed.stdout.read(1 << 20), b""))


class Container:
    """A container of crun: no capabilities, no new privileges, and namespaces of its own for all but the network."""

    def __init__(self, site, name, arguments, user, group, groups, mounts, is_read_only=True):
        self.site, self.name = site, f"siwatch-{name}-{os.getpid()}"
        self.folder = site.work / self.name
        self.log = self.folder / "log"
        scratch = self.folder / "scratch"
        scratch.mkdir(parents=True)
        # The engine's own layer, in which it makes what mounts lie on.
        mount("-t", "tmpfs", "tmpfs", scratch)
        for layer in ("upper", "work", "root"):
            (scratch / layer).mkdir()
        options = f"lowerdir={site.image.folder},upperdir={scratch}/upper,workdir={scratch}/work"
        mount("-t", "overlay", "overlay", "-o", options, scratch / "root")
        usual = [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=64k"]},
            {"destination": "/etc/hosts", "type": "bind", "source": str(site.hosts), "options": ["bind", "ro"]},
        ]
        usual += [{"destination": f, "type": "bind", "source": f, "options": ["rbind", "ro"]} for f in site.image.foreign]
        none = {kind: [] for kind in ("bounding", "effective", "permitted", "inheritable", "ambient")}
        process = {
            "terminal": False, "user": {"uid": user, "gid": group, "additionalGids": groups}, "args": arguments, "cwd": "/",
            "env": site.image.environment, "noNewPrivileges": True, "capabilities": none,
        }
        spec = {
            "ociVersion": "1.0.2", "process": process, "root": {"path": str(scratch / "root"), "readonly": is_read_only},
            "mounts": usual + mounts, "hostname": name,
            "linux": {"namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "uts")]},
        }
        (self.folder / "config.json").write_text(json.dumps(spec))
        self.process = None

    @staticmethod
    def crun(*arguments, **options):
        return run("crun", "--cgroup-manager=disabled", *arguments, check=False, **options)

    def start(self):
        with open(self.log, "ab") as log:
            line = ["crun", "--cgroup-manager=disabled", "run", "--bundle", str(self.folder), self.name]
            self.process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.site.containers.append(self)
        return self

    def complete(self):
        """Its status, once it has ended."""
        return self.start().process.wait(120)

    def execute(self, *arguments):
        return self.crun("exec", "--user", f"{USER}:{USER}", self.name, *arguments)

    @property
    def first(self):
        """The first process, as this machine numbers it; nil before it is there."""
        with contextlib.suppress(ValueError, KeyError):
            return json.loads(self.crun("state", self.name).stdout)["pid"] or None

    def says(self, text, limit=30):
        return until(lambda: text in self.log.read_text(errors="replace"), limit)

    def signal(self, name):
        self.crun("kill", self.name, name)

    def end(self, limit=60):
        """The status after SIGTERM, and how long that took. Nil in place of the status if only SIGKILL ended it."""
        began = time.monotonic()
        self.signal("TERM")
        try:
            return self.process.wait(limit), time.monotonic() - began
        except subprocess.TimeoutExpired:
            self.signal("KILL")
            self.process.wait()
            return None, time.monotonic() - began

    def zombies(self):
        """The dead children of the first process that nobody has waited for."""
        children = pathlib.Path(f"/proc/{self.first}/task/{self.first}/children").read_text().split()
        return [c for c in children if pathlib.Path(f"/proc/{c}/stat").read_text().rpartition(")")[2].split()[0] == "Z"]


def catches(process, number):
    """Whether a process has a handler for a signal. The kernel withholds every other signal from the first process of a container."""
    with contextlib.suppress(OSError):
        caught = re.search(r"SigCgt:\s*(\w+)", pathlib.Path(f"/proc/{process}/status").read_text())[1]
        return bool(int(caught, 16) >> number - 1 & 1)


def bind(source, destination, *options):
    return {"destination": destination, "type": "bind", "source": str(source), "options": ["bind", *options]}


# MARK: What is around


class Site:
    """A simulated Apple, its key, and the image."""

    def __init__(self, work, siwatch, simulator):
        self.work, self.containers, self.started = work, [], []
        self.siwatch, self.image = siwatch, Image(siwatch)
        self.hosts = work / "hosts"
        self.hosts.write_text("127.0.0.1 localhost db.example.com siwatch\n")
        apple = self.launch("apple", [simulator, "--key-file", "AuthKey.p8"], stdout=subprocess.PIPE)
        self.apple = apple.stdout.readline().decode().split()[-1]
        self.token = run(siwatch, "secret", "new", "token").stdout.strip()
        made = run(siwatch, "secret", "new", "sealing-key", check=False)
        # A siwatch from before there was such a command.
        self.sealing_key = made.stdout if made.returncode == 0 else "siwatch-sealing-key-1:" + run("openssl", "rand", "-base64", "32").stdout

    def launch(self, name, line, **options):
        with open(self.work / f"{name}.log", "wb") as log:
            settings = {"cwd": self.work, "stdin": subprocess.DEVNULL, "stdout": log, "stderr": log} | options
            process = subprocess.Popen([str(word) for word in line], **settings)
        self.started.append(process)
        return process

    def end(self):
        for container in self.containers:
            if container.process.poll() is None:
                container.signal("KILL")
        for process in self.started:
            process.terminate()
            process.wait(30)

    def simulated(self, toml):
        """The configuration, with the simulated Apple in place of Apple."""
        paths = {"token_endpoint": "token", "revocation_endpoint": "revoke", "keys_endpoint": "keys"}
        return toml + "\n[apple]\n" + "".join(f'{key} = "{self.apple}/auth/{path}"\n' for key, path in paths.items())

    def user(self):
        """A user who has signed in at Apple."""
        request = urllib.request.Request(f"{self.apple}/simulator/users", b'{"count": 1}')
        with urllib.request.urlopen(request) as answer:
            found = json.load(answer)
        users = found if isinstance(found, list) else next(value for value in found.values() if isinstance(value, list))
        return users[0]

    def certificate(self, name):
        """A certificate of a CA of its own for a name: the CA, the chain and the key."""
        folder = self.work / f"certificate-{name}"
        folder.mkdir(exist_ok=True)
        for subject, more in (("ca", ["-x509", "-addext", "basicConstraints=critical,CA:TRUE"]), (name, [])):
            run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={subject}", *more,
                "-keyout", folder / f"{subject}.key", "-out", folder / f"{subject}.pem")
        (folder / "names").write_text(f"subjectAltName=DNS:{name}\n")
        run("openssl", "x509", "-req", "-in", folder / f"{name}.pem", "-CA", folder / "ca.pem", "-CAkey", folder / "ca.key",
            "-extfile", folder / "names", "-out", folder / "tls.crt")
        return tuple((folder / file).read_bytes() for file in ("ca.pem", "tls.crt", f"{name}.key"))


class Door:
    """A backend's way to the HTTP door: by a Unix socket as another user of the group of backends, or by TLS."""

    def __init__(self, token, *way):
        self.token, self.way = token, way

    def ask(self, path, body=None):
        """Status and answer."""
        line = [*self.way, "-sS", "-m", "10", "-w", "\n%{http_code}", "-H", f"Authorization: Bearer {self.token}"]
        if body is not None:
            line += ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
        said = run(*line, ("https" if "--cacert" in self.way else "http") + f"://siwatch:9465{path}", check=False)
        text, _, status = said.stdout.rpartition("\n")
        return int(status or 0), text or said.stderr

    def sign_in(self, user):
        told = {"client_id": user["client_id"], "user_id": user["user_id"], "refresh_token": user["refresh_token"],
                "signed_in_at": user["granted_at"]}
        return self.ask("/v1/sign-ins", told)

    def is_confirmed(self, user):
        """Whether the user is authorized, and Apple has accepted the token."""
        status, text = self.ask(f"/v1/users/{user['user_id']}")
        return status == 200 and json.loads(text)["state"] == "authorized" and bool(json.loads(text).get("verified_at"))


class Postgres:
    """A server at db.example.com that takes passwords over TLS."""

    def __init__(self, site):
        programs = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: int(p.parent.name))[-1]
        self.folder, who = site.work / "postgres", {"user": "nobody", "group": "nogroup", "extra_groups": []}
        self.folder.mkdir()
        self.root, chain, key = site.certificate("db.example.com")
        for name, text in (("server.crt", chain), ("server.key", key)):
            (self.folder / name).write_bytes(text)
            (self.folder / name).chmod(0o600)
        for path in (self.folder, *self.folder.iterdir()):
            shutil.chown(path, "nobody", "nogroup")
        run(programs / "initdb", "-D", "data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", cwd=self.folder, **who)
        (self.folder / "data/pg_hba.conf").write_text("local all postgres trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n")
        settings = [f"unix_socket_directories={self.folder}", "ssl=on", f"ssl_cert_file={self.folder}/server.crt",
                    f"ssl_key_file={self.folder}/server.key", "fsync=off"]
        site.launch("postgres", [programs / "postgres", "-D", "data", *(x for s in settings for x in ("-c", s))], cwd=self.folder, **who)
        self.psql = [programs / "psql", "-qAt", "-v", "ON_ERROR_STOP=1", "-h", self.folder, "-U", "postgres"]
        until(lambda: run(*self.psql, "-c", "SELECT 1", check=False).returncode == 0)
        page = (ROOT / "docs/postgresql.md").read_text()
        run(*self.psql, "-c", "CREATE DATABASE app")
        run(*self.psql, "app", input=re.search(r"```sql\n(.*?)```", page[page.index("## Set up"):], re.S)[1])


# MARK: What the kubelet does


class Pod:
    """The pod of a manifest, and its volumes."""

    def __init__(self, site, name, secrets):
        documents = list(yaml.safe_load_all((PACKAGING / f"kubernetes/{name}.yaml").read_text()))
        self.site, self.name, self.secrets, self.runs = site, name, secrets, 0
        self.maps = {d["metadata"]["name"]: d["data"] for d in documents if d["kind"] == "ConfigMap"}
        for data in self.maps.values():
            data["siwatch.toml"] = site.simulated(data["siwatch.toml"])
        workload = next(d for d in documents if d["kind"] in ("StatefulSet", "Deployment"))
        self.spec = workload["spec"]["template"]["spec"]
        self.folders = {}
        for claim in workload["spec"].get("volumeClaimTemplates", []):
            self.folders[claim["metadata"]["name"]] = folder = site.work / f"volume-{name}"
            folder.mkdir(exist_ok=True)
            # As local-path-provisioner, the default of k3s and kind, makes it.
            folder.chmod(0o777)
        for volume in self.spec["volumes"]:
            self.folders[volume["name"]] = folder = site.work / f"{name}-{volume['name']}"
            folder.mkdir()
            mount("-t", "tmpfs", "tmpfs", folder)
            if "projected" in volume:
                self.project(volume["projected"], folder)
            else:
                os.chown(folder, 0, self.spec["securityContext"]["fsGroup"])
                folder.chmod(0o2777)

    def project(self, volume, folder):
        """Writes files of root that the group may read, behind links, as the kubelet does to replace all at once."""
        group, version = self.spec["securityContext"]["fsGroup"], f"..{time.time_ns()}"
        (folder / version).mkdir()
        for source in volume["sources"]:
            kind = "configMap" if "configMap" in source else "secret"
            files = (self.maps if kind == "configMap" else self.secrets)[source[kind]["name"]]
            for name, text in files.items():
                file = folder / version / name
                file.write_bytes(text if isinstance(text, bytes) else text.encode())
                os.chown(file, 0, group)
                file.chmod(volume["defaultMode"])
                if not (folder / name).is_symlink():
                    (folder / name).symlink_to(f"..data/{name}")
        os.chown(folder / version, 0, group)
        (folder / version).chmod(0o2755)
        (folder / "..new").symlink_to(version)
        (folder / "..new").rename(folder / "..data")

    def container(self, described, arguments=None):
        rights = {**self.spec["securityContext"], **described["securityContext"]}
        mounts = [
            bind(self.folders[m["name"]], m["mountPath"], "ro" if m.get("readOnly") else "rw", "rbind") for m in described["volumeMounts"]
        ]
        mounts.sort(key=lambda m: m["destination"].count("/"))
        image = self.site.image
        line = described.get("command") or image.entrypoint + (arguments or described.get("args") or image.command)
        self.runs += 1
        name = f"{self.name}-{self.runs}"
        return Container(self.site, name, line, rights["runAsUser"], rights["runAsGroup"], [rights["fsGroup"], BACKENDS], mounts,
                         rights["readOnlyRootFilesystem"])

    def start(self):
        for described in self.spec.get("initContainers", []):
            made = self.container(described)
            if (status := made.complete()) != 0:
                raise SystemExit(f"the init container {described['name']} ended with {status}: {made.log.read_text()}")
        return self.container(self.spec["containers"][0]).start()

    def probe(self, kind):
        """The status that the kubelet's question gets."""
        described = self.spec["containers"][0]
        action = described[kind]["httpGet"]
        port = next(p["containerPort"] for p in described["ports"] if p["name"] == action["port"])
        return get(f"http://127.0.0.1:{port}{action['path']}")[0]

    def is_ready(self):
        return until(lambda: self.probe("startupProbe") == 200 and self.probe("readinessProbe") == 200, 60)


# MARK: Lives


def live(what, site, start, is_ready, door, grace):
    """Starts twice on one volume, signs in, reloads and stops. Leaves nothing running."""
    container = start()
    if not holds(f"{what}: siwatch is ready", is_ready(), container.log.read_text() if container.log.exists() else ""):
        container.end()
        return
    status = pathlib.Path(f"/proc/{container.first}/status").read_text()
    rights = dict(re.findall(r"(?m)^(\w+):\s*(.*)$", status))
    groups = rights["Groups"].split()
    holds(f"{what}: it is the first process, of the user {USER}, without capabilities and new privileges",
          rights["NSpid"].split()[-1] == "1" and rights["Uid"].split() == [str(USER)] * 4 and rights["NoNewPrivs"] == "1"
          and all(int(rights[f"Cap{kind}"], 16) == 0 for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")), status)
    said = container.execute("sh", "-c", ": >/usr/bin/here || : >/etc/siwatch/here")
    holds(f"{what}: it can write neither the root nor its configuration", said.returncode != 0, said)
    said = container.execute("sh", "-c", site.image.health)
    holds(f"{what}: the health check of the image succeeds", said.returncode == 0 and "healthy" in said.stdout, said)
    said = container.execute("/usr/bin/siwatch", "status")
    holds(f"{what}: status is the daemon's own word", re.search(r"(?m)^  process +1 on .* ready$", said.stdout), said)
    said = container.execute("/usr/bin/siwatch", "doctor", "--before-start")
    holds(f"{what}: check finds no mistake, and advises no chown", said.returncode == 0 and not re.search("chown|chmod|sudo", said.stdout + said.stderr),
          said.stdout + said.stderr)
    user = site.user()
    status, text = door.sign_in(user)
    holds(f"{what}: a backend tells a sign-in", status in (200, 202), f"{status} {text}")
    holds(f"{what}: Apple confirms it", until(lambda: door.is_confirmed(user)), container.log.read_text())
    container.execute("kill", "-HUP", "1")
    holds(f"{what}: SIGHUP reloads", container.says('"event":"reloaded"'), container.log.read_text())
    # The shell ends before its child, as at the time-out of a health check.
    container.execute("sh", "-c", "siwatch status --line >/dev/null &")
    holds(f"{what}: no ended process stays behind", until(lambda: not container.zombies()) is True, container.zombies())
    status, took = container.end(grace)
    holds(f"{what}: SIGTERM ends it in order, within the {grace} s of the file ({took:.1f} s)",
          status == 0 and container.says("siwatch has stopped", 0), f"{status} {container.log.read_text()}")

    container = start()
    holds(f"{what}: a second container on the same volume is ready", is_ready(), container.log.read_text())
    holds(f"{what}: it knows the first one's user", door.is_confirmed(user))
    second = site.user()
    door.sign_in(second)
    holds(f"{what}: and goes on", until(lambda: door.is_confirmed(second)), container.log.read_text())
    container.signal("KILL")
    container.process.wait(30)

    container = start()
    holds(f"{what}: it starts after SIGKILL too", is_ready(), container.log.read_text())
    holds(f"{what}: a stop of the third", container.end(grace)[0] == 0, container.log.read_text())

    container = start()
    first = until(lambda: container.first)
    # Before the daemon has its own handler, which would end it in order.
    until(lambda: catches(first, signal.SIGTERM), 5)
    os.kill(first, signal.SIGTERM)
    status, took = container.end(grace)
    holds(f"{what}: SIGTERM ends a start at once ({took:.1f} s)", status == 128 + signal.SIGTERM and took < 5,
          f"{status} {container.log.read_text()}")


def compose(site):
    text = (PACKAGING / "compose/compose.yaml").read_text()
    described = yaml.safe_load(text)
    service, folder = described["services"]["siwatch"], site.work / "compose"
    (folder / "secrets").mkdir(parents=True)
    (folder / "siwatch.toml").write_text(site.simulated((PACKAGING / "compose/siwatch.toml").read_text()))
    os.chown(folder / "siwatch.toml", 1000, 1000)
    texts = {"AuthKey.p8": (site.work / "AuthKey.p8").read_text(), "siwatch.key": site.sealing_key, "backend.token": site.token + "\n"}
    mounts, secrets = [], {}
    for name in service["secrets"]:
        secrets[name] = file = folder / described["secrets"][name]["file"]
        file.write_text(texts[name])
        os.chown(file, 0, USER)
        file.chmod(0o440)
        mounts.append(bind(file, f"/run/secrets/{name}", "ro"))
    for line in service["tmpfs"]:
        destination, _, options = line.partition(":")
        mounts.append({"destination": destination, "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", *options.split(",")]})
    for line in service["volumes"]:
        name, destination, *mode = line.split(":")
        if name.startswith("./"):
            mounts.append(bind(folder / name, destination, *mode))
            continue
        # Docker gives a new volume the owner and the mode of the folder in the image.
        volume, covered = site.work / f"volume-{name}", os.stat(f"{site.image.folder}{destination}")
        volume.mkdir()
        os.chown(volume, covered.st_uid, covered.st_gid)
        volume.chmod(covered.st_mode & 0o7777)
        mounts.append(bind(volume, destination, "rw"))
    # As Docker does: /run before what lies in it.
    mounts.sort(key=lambda mount: mount["destination"].count("/"))
    runs = iter(range(100))

    def container(arguments=site.image.command):
        return Container(site, f"compose-{next(runs)}", site.image.entrypoint + arguments, site.image.user, USER, [BACKENDS], mounts,
                         service["read_only"])

    seconds = int(service["stop_grace_period"].removesuffix("s"))
    # The backend of the file's comment, as the user of another image.
    sample = yaml.safe_load(re.search(r"(?m)^  # backend:\n(?:  #   .*\n)+", text)[0].replace("  # ", "  "))["backend"]
    backend = ["setpriv", "--reuid=20000", "--regid=20000", f"--groups={','.join(sample['group_add'])}"]
    token = folder / described["secrets"][sample["secrets"][0]["source"]]["file"]
    token.write_text(site.token + "\n")
    os.chown(token, 0, BACKENDS)
    token.chmod(0o440)
    read = run(*backend, "cat", token, check=False)
    holds("Compose: the backend reads its copy of the token", read.stdout == token.read_text(), read.stderr)
    for name, file in secrets.items():
        holds(f"Compose: the backend could not read {name} of siwatch", run(*backend, "cat", file, check=False).returncode != 0)
    door = Door(read.stdout.strip(), *backend, "curl", "--unix-socket", site.work / "volume-door/http.sock")
    live("Compose", site, lambda: container().start(), lambda: until(lambda: get("http://127.0.0.1:9464/readyz")[0] == 200, 60), door, seconds)

    # The owner of a file on the host is no user of the container.
    for name, file in secrets.items():
        before = file.stat()
        for owner, mode, sentence in ((1000, 0o440, ""), (1000, 0o444, "it is mounted read-only"), (1000, 0o400, "ermission denied")):
            os.chown(file, owner, USER)
            file.chmod(mode)
            checked = container(["doctor", "--before-start"])
            status, said = checked.complete(), checked.log.read_text()
            is_right = status == (78 if sentence else 0) and sentence in said and not re.search("chown|chmod", said)
            holds(f"Compose: check judges {name} of another owner with mode {mode:04o} by the mode", is_right, f"{status} {said}")
        os.chown(file, before.st_uid, before.st_gid)
        file.chmod(before.st_mode & 0o7777)


def kubernetes(site, name, postgres=None):
    authority, chain, key = site.certificate("siwatch")
    (site.work / "ca.pem").write_bytes(authority)
    secret = {"AuthKey.p8": (site.work / "AuthKey.p8").read_bytes(), "siwatch.key": site.sealing_key, "backend.token": site.token + "\n"}
    if postgres:
        secret |= {"database.password": "change me", "root.crt": postgres.root}
    secrets = {"siwatch": secret, "siwatch-tls": {"tls.crt": chain, "tls.key": key}}
    pod = Pod(site, name, secrets)
    what = "Kubernetes, " + ("PostgreSQL" if postgres else "SQLite")
    if postgres:
        job = yaml.safe_load((PACKAGING / "kubernetes/migrate.yaml").read_text())["spec"]["template"]["spec"]
        migrated = pod.container(job["containers"][0])
        holds(f"{what}: the job migrates", migrated.complete() == 0, migrated.log.read_text())
    door = Door(site.token, "curl", "--cacert", site.work / "ca.pem", "--resolve", "siwatch:9465:127.0.0.1")
    live(what, site, pod.start, pod.is_ready, door, pod.spec["terminationGracePeriodSeconds"])

    if not postgres:
        described = pod.spec["containers"][0]
        volume = next(v for v in pod.spec["volumes"] if v["name"] == "configuration")["projected"]
        # The default of Kubernetes.
        pod.project({**volume, "defaultMode": 0o644}, pod.folders["configuration"])
        checked = pod.container(described, ["doctor", "--before-start"])
        status, said = checked.complete(), checked.log.read_text()
        holds(f"{what}: check says of secrets with the mode 0644 where it is set, and of no chown",
              status == 78 and said.count("it is mounted read-only: give it the group 10001 and the mode 0440 where it comes from") == 4
              and not re.search("chown|chmod", said), said)


def files():
    """Compares the files with their schemas."""
    compose_file, manifests = PACKAGING / "compose/compose.yaml", sorted((PACKAGING / "kubernetes").glob("*.yaml"))
    for program, line in (("check-jsonschema", ["--builtin-schema", "vendor.compose-spec", compose_file]),
                          ("kubernetes-validate", ["--strict", "--quiet", "-k", "1.30", *manifests])):
        if shutil.which(program):
            said = run(program, *line, check=False)
            holds(f"{program} finds no mistake in packaging", said.returncode == 0, said.stdout + said.stderr)
        else:
            print(f"- {program} is not on the PATH, so its files of packaging are not compared with their schema: pip install {program}")


def main():
    if os.geteuid() != 0:
        sys.exit("test_container: only root can start a container")
    if os.environ.get("SIWATCH_TEST_CONTAINER") != "inside":
        # As long as there is a network.
        Image.assemble(sys.argv[1])
        # Mounts and ports of its own. The files of the control groups are hidden, because crun has no use for some of their versions.
        os.environ["SIWATCH_TEST_CONTAINER"] = "inside"
        os.execvp("unshare", ["unshare", "--mount", "--net", "--propagation", "private", sys.executable, *sys.argv])
    run("chroot", Image.folder, "/usr/bin/busybox", "ip", "link", "set", "lo", "up")
    mount("-t", "tmpfs", "tmpfs", "/sys/fs/cgroup")
    siwatch, simulator = (str(pathlib.Path(a).resolve()) for a in sys.argv[1:3])
    if siwatch.endswith(".tar"):
        siwatch = str(Image.folder / "usr/bin/siwatch")
    files()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        work = pathlib.Path(folder)
        work.chmod(0o711)
        site = Site(work, siwatch, simulator)
        try:
            size = site.image.size
            said = f"the image has {size / 1e6:.1f} MB, compressed"
            if site.image.foreign:
                print(f"- {said}; a release build would have another size")
            else:
                holds(f"{said}, and at most {LIMIT / 1e6:.0f}", size <= LIMIT)
            lives = {
                "compose": lambda: compose(site), "sqlite": lambda: kubernetes(site, "sqlite"),
                "postgresql": lambda: kubernetes(site, "postgresql", Postgres(site)),
            }
            for name in sys.argv[3:] or lives:
                lives[name]()
        finally:
            site.end()
            with open("/proc/self/mounts") as mounts:
                points = [line.split()[1] for line in mounts if line.split()[1].startswith(folder)]
            for point in reversed(points):
                run("umount", "-l", point, check=False)
    sys.exit(min(failures, 125))


if __name__ == "__main__":
    main()
