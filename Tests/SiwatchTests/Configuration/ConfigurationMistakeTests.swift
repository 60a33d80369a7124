// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Testing

@testable import siwatch

struct ConfigurationMistakeTests {
    /// A file with one mistake, and its place.
    struct Case: Sendable, CustomTestStringConvertible {
        var text: String
        var key: String
        var problem: String

        /// - Parameter text: stands before a valid app.
        init(_ text: String, _ key: String, _ problem: String) {
            self.text = text + "\n" + ConfigurationTests.app
            (self.key, self.problem) = (key, problem)
        }

        /// - Parameter replacement: a key of the app, and its new text.
        init(_ replacement: (String, String), _ key: String, _ problem: String) {
            self.text = ConfigurationTests.app.replacing(replacement.0, with: replacement.1)
            (self.key, self.problem) = (key, problem)
        }

        /// - Parameter line: `table.key = value`.
        init(line: String, _ problem: String) {
            let (table, key) = (line.prefix { $0 != "." }, line.prefix { $0 != " " })
            self.init("[\(table)]\n\(line.dropFirst(table.count + 1))", String(key), problem)
        }

        var testDescription: String { "\(key) \(problem)" }
    }

    static let duration = "must be a positive duration such as \"24h\", \"1h30m\" or \"20ms\", with the units d h m s ms"
    static let endpoint =
        "must be an https:// URL without user, password, query or fragment, with a port up to 65535; http:// is for loopback addresses only"
    static let webhook =
        "must be an https:// URL without user, password or fragment, with a port up to 65535; http:// is for loopback addresses only"
    static let danger = "leads to an address where clouds hand out credentials; if you want that, allow_any_address = true"
    static let listen = "must be host:port, such as \"127.0.0.1:9464\", or \"\" for none"
    static let file = "must name a file; a key itself never stands here"
    static let appleID = "must be the 10 capital letters and digits that Apple shows"
    static let clientID = "must be one App ID or Services ID such as com.example.app, without the team: letters, digits, . and -"
    static let number = "must be a whole number, not "
    static let unreachable = "must be below breaker.window, or the breaker can never open"
    static let whole = "must be between 1 and 1000000000"
    static let userID = "must be the sub of a user: 1 to 255 characters without control characters"
    static let unknown = "is not a key that siwatch knows"
    static let key = "[[app.key]]\nid = \"ABC123DEFG\"\nfile = \"AuthKey_ABC123DEFG.p8\""
    static let clients = "client_ids = [\"com.example.app\", \"com.example.web\"]"
    static let schema = "must be 1 to 63 characters a-z, 0-9 and _ that begin with no digit, and not with pg_"

    static let unknownKeys = [
        Case("[databse]", "databse", unknown + "; did you mean database?"), Case("verbose = true", "verbose", unknown),
        Case("[database]\npaht = 1", "database.paht", unknown + "; did you mean path?"),
        Case("[refresh]\n\"max requests\" = 1", "refresh.\"max requests\"", unknown), Case("[log]\n\"\" = 1", "log.\"\"", unknown),
        Case("[log]\n\"a\\u001bb\" = 1", "log.\"a\\u{1B}b\"", unknown), Case("[breaker]\na = 1", "breaker.a", unknown),
        Case(("name =", "nmae = 1\nname ="), "app[0].nmae", unknown), Case(("file =", "pem = \"\"\nfile ="), "app[0].key[0].pem", unknown),
    ]

    static let oddPlaces = [
        Case("database = 1", "database", "must be a table, not an integer"),
        Case("database = []", "database", "must be a table, not a list"),
        Case("[[database]]\npath = \"x\"", "database", "must be a table, not a list"),
        Case("[apple]\nissuers = [1]", "apple.issuers[0]", "must be a string, not an integer"),
        Case("[apple]\nissuers = [\"a\", \"\"]", "apple.issuers[1]", "must not be empty"),
        Case("[breaker]\nwindow = 20", "breaker.max_rejections", unreachable),
        Case((clients, "client_ids = \"com.example.app\""), "app[0].client_ids", "must be a list of strings, not a string"),
        Case((clients, "client_ids = [\"a\", [\"b\"]]"), "app[0].client_ids[1]", "must be a string, not a list"),
        Case(("name =", "revocations = 0\nname ="), "app[0].revocations", "must be true or false, not an integer"),
        Case(("[[app.key]]", "[app.key]"), "app[0].key", "must be a list of tables, each under a header [[app.key]]"),
    ]

    static let wrongAddresses = [
        url("mysql://x/y", "must be postgresql://user@host:port/database, with ?host=/folder for a socket"),
        url("postgresql://[h/y", "is not a URL that libpq understands"),
        url("postgresql://h/y?schema=z", "must not name the schema; name it in database.schema"),
        url("postgresql://me:secret@h/y", "must not hold a password; name a file that holds it in database.password_file"),
        url("postgresql://h:5432,i:65536/y", "must name ports from 1 to 65535"),
        url("postgresql://h/y?options=-cx", "must not set options, which siwatch sets itself"),
        url("postgresql:///y?service=app", "must name the server itself, and no service of a file of libpq's"),
        url("postgresql:///y\"\npath = \"x", "stands beside database.url: one of the two names the database", of: "path"),
        url("postgresql:///y\"\nschema = \"Pg", schema, of: "schema"),
    ]

    /// Lines `table.key = value` with the same problem, each for a file of its own.
    static let wrongLines: KeyValuePairs<String, [String]> = [
        "must be a string, not an integer": ["database.path = 1", "refresh.interval = 24", "operations.listen = 9464"],
        "must be a string, not a boolean": ["encryption.key_file = true"],
        "must be a string, not a time": ["refresh.interval = 07:32:00"],
        "must be a string, not a table": ["log.level = {}"],
        "must be a list of strings, not a string": [#"apple.issuers = "x""#],
        number + "a string": [#"refresh.max_requests_per_second = "50""#],
        number + "a floating-point number": ["refresh.max_requests_per_second = 5.0"],
        number + "a list": ["refresh.max_concurrent_requests = []"],
        "belongs to database.url, which is missing": [#"database.schema = "x""#],
        file: [#"database.path = """#, #"encryption.key_file = """#, #"encryption.key_file = "a\nb""#],
        duration: [
            #"refresh.interval = "24""#, #"refresh.timeout = "0s""#, #"breaker.settle = "0s""#, #"queues.poll_interval = "-1s""#,
            #"queues.clock_skew = """#, #"retention.notification_log = "x""#, #"retention.quarantine = "x""#,
            #"retention.changes = "x""#, #"retention.grant_log = "x""#, #"retention.revocation_log = "x""#,
            #"retention.rejected_token = "x""#,
        ],
        whole: [
            "refresh.max_requests_per_second = 0", "refresh.max_requests_per_second = -1", "refresh.max_concurrent_requests = 1000000001",
            "breaker.max_rejections = 0", "revocations.max_per_hour = 0",
        ],
        "must be between 1 and 10000": ["breaker.window = 0", "breaker.window = 10001"],
        "must be between 1 and 99": ["breaker.max_rejected_percent = 0", "breaker.max_rejected_percent = 100"],
        "must be between 1 and 100": ["revocations.max_percent_per_hour = 101"],
        unreachable: ["breaker.max_rejections = 500"],
        "must be at most 60s": [#"queues.poll_interval = "1m1ms""#],
        #"must be at least an hour; m is minutes, and a month is "30d""#: [#"retention.ended_user = "59m""#],
        listen: [#"operations.listen = "9464""#],
        "lets other hosts read the metrics, without a password; if you want that, set operations.allow_remote = true": [
            #"operations.listen = "0.0.0.0:9464""#
        ],
        "must be one of trace, debug, info, notice, warning, error, critical": [#"log.level = "loud""#],
        "must be one of auto, text, json": [#"log.format = "xml""#],
        endpoint: [
            #"apple.token_endpoint = "http://appleid.apple.com/""#, #"apple.revocation_endpoint = """#,
            #"apple.keys_endpoint = "ftp://127.0.0.1/""#, #"apple.token_endpoint = "https://appleid.apple.com:65536/""#,
        ],
        "must not be empty": ["apple.issuers = []"],
    ]

    /// A key of the app, its problem, a text of the app, and what stands in its place, each in a file of its own.
    static let wrongApps: [(key: String, problem: String, old: String, new: [String])] = [
        ("name", "must be 1 to 64 characters without control characters", "\"example\"", ["\"\"", "\"a\\tb\""]),
        ("team_id", appleID, "A1B2C3D4E5", ["A1B2C3D4E", "A1B2C3D4E5F", "a1b2c3d4e5"]),
        ("key[0].id", appleID, "\"ABC123DEFG\"", ["\"ABC123DEF-\"", "\"ABC123DEÉ\""]),
        ("client_ids", "must not be empty", clients, ["client_ids = []"]),
        ("client_ids[1]", clientID, "com.example.web", ["com.example web"]),
        ("client_ids[0]", clientID, "com.example.app", ["", "A1B2C3D4E5.com.example.app"]),
        ("client_ids[0]", clientID, clients, [#"client_ids = ["com.example.app,com.example.web"]"#, #"client_ids = ["*"]"#]),
        ("canaries[0]", userID, clients, [clients + "\ncanaries = [\"\"]"]),
        ("canaries[1]", "is the same as app[0].canaries[0]", clients, [clients + "\ncanaries = [\"a\", \"a\"]"]),
        ("canaries", "must be at most 20", clients, [clients + "\ncanaries = \((1...21).map { "sub\($0)" })"]),
        ("canaries", "must be a list of strings, not a string", clients, [clients + "\ncanaries = \"a\""]),
        // A key that was pasted into the file is never quoted.
        ("key[0].file", file, "AuthKey_ABC123DEFG.p8", ["-----BEGIN PRIVATE KEY-----"]),
        ("key[0].file", file, "AuthKey_ABC123DEFG.p8", ["\"\"\n-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n\"\""]),
    ]

    /// A delivery to a URL that siwatch would never open, or that would end it.
    static let wrongReceivers =
        ["https://example.com:65536/", "https://example.com:99999999999999999999/x?y", "https://example.com:0", "http://example.com/"]
        .map { delivery(to: $0, webhook) }
        + [
            "https://169.254.169.254/latest", "https://[fe80::1%25eth0]:8443/", "https://[::ffff:a9fe:a9fe]/", "https://2852039166/",
            "https://0.0.0.0/",
        ]
        .map { delivery(to: $0, danger) }

    private static func url(_ url: String, _ problem: String, of key: String = "url") -> Case {
        Case("[database]\nurl = \"\(url)\"", "database.\(key)", problem)
    }

    private static func delivery(to url: String, _ problem: String) -> Case {
        Case("[[delivery]]\nname = \"d\"\nsecret_files = [\"s\"]\nurl = \"\(url)\"", "delivery[0].url", problem)
    }

    static let missingKeys = [
        Case(("name = \"example\"", ""), "app[0].name", "is missing"),
        Case(("team_id = \"A1B2C3D4E5\"", ""), "app[0].team_id", "is missing"),
        Case((clients, ""), "app[0].client_ids", "is missing"),
        Case(("id = \"ABC123DEFG\"", ""), "app[0].key[0].id", "is missing"),
        Case(("file = \"AuthKey_ABC123DEFG.p8\"", ""), "app[0].key[0].file", "is missing"),
        Case((key, ""), "app[0].key", "is missing: at least one [[app.key]] is needed"),
        Case((key, "key = []"), "app[0].key", "is empty: at least one [[app.key]] is needed"),
        Case((ConfigurationTests.app, ""), "app", "is missing: at least one [[app]] is needed"),
        Case((ConfigurationTests.app, "app = []"), "app", "is empty: at least one [[app]] is needed"),
        Case((ConfigurationTests.app, "app = 1"), "app", "must be a list of tables, each under a header [[app]]"),
        Case((ConfigurationTests.app, "app = [1]"), "app[0]", "must be a table, not an integer"),
    ]

    static let repetitions = [
        Case(("name = \"example\"", "name = \"maintenance\""), "app[0].name", "has another meaning in the metrics"),
        Case(("name = \"example\"", "name = \"webhooks example\""), "app[0].name", "has another meaning in the metrics"),
        Case(("com.example.web", "com.example.app"), "app[0].client_ids[1]", "is the same as app[0].client_ids[0]"),
        Case((key, key + "\n" + key), "app[0].key[1].id", "is the same as app[0].key[0].id"),
        Case(ConfigurationTests.app.replacing("com.example.", with: "org.example."), "app[1].name", "is the same as app[0].name"),
        Case(
            ConfigurationTests.app.replacing("\"example\"", with: "\"other\"").replacing("com.example.web", with: "org.example.web"),
            "app[1].client_ids[0]",
            "is the same as app[0].client_ids[0]"
        ),
    ]

    private static let all: [[Case]] = [
        unknownKeys, oddPlaces, wrongAddresses, wrongReceivers, missingKeys, repetitions,
        wrongLines.flatMap { problem, lines in lines.map { Case(line: $0, problem) } },
        wrongApps.flatMap { app in app.new.map { Case((app.old, $0), "app[0].\(app.key)", app.problem) } },
    ]

    @Test(arguments: all.flatMap { $0 }) func eachMistakeIsFound(_ mistake: Case) {
        let error = #expect(throws: InvalidConfiguration.self) { try Configuration(parsing: mistake.text, from: "siwatch.toml") }
        #expect(error?.mistakes == [.at(mistake.key, mistake.problem)])
    }

    /// A name is looked up for each delivery, and who wants such an address gets it.
    @Test(arguments: ["https://example.com:65535/x", "https://169.254.169.254/\"\nallow_any_address = true #", "https://10.0.0.1/"])
    func anyOtherReceiverIsTaken(url: String) throws {
        let text = Self.delivery(to: url, "").text
        #expect(try Configuration(parsing: text, from: "siwatch.toml").deliveries.count == 1)
    }
}
