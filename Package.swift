// swift-tools-version:6.2
// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import PackageDescription

let strict: [SwiftSetting] = [
    // https://github.com/swiftlang/swift-evolution/blob/main/proposals/0335-existential-any.md
    .enableUpcomingFeature("ExistentialAny"),
    // https://github.com/swiftlang/swift-evolution/blob/main/proposals/0444-member-import-visibility.md
    .enableUpcomingFeature("MemberImportVisibility"),
    // https://github.com/swiftlang/swift-evolution/blob/main/proposals/0409-access-level-on-imports.md
    .enableUpcomingFeature("InternalImportsByDefault"),
]

let ahc = Target.Dependency.product(name: "AsyncHTTPClient", package: "async-http-client")
let argumentParser = Target.Dependency.product(name: "ArgumentParser", package: "swift-argument-parser")
let asyncAlgorithms = Target.Dependency.product(name: "AsyncAlgorithms", package: "swift-async-algorithms")
let coreMetrics = Target.Dependency.product(name: "CoreMetrics", package: "swift-metrics")
let crypto = Target.Dependency.product(name: "Crypto", package: "swift-crypto")
let cryptoExtras = Target.Dependency.product(name: "CryptoExtras", package: "swift-crypto")
let grdb = Target.Dependency.product(name: "GRDB", package: "GRDB.swift")
let grdbSQLite = Target.Dependency.product(name: "GRDBSQLite", package: "GRDB.swift")
let httpTypes = Target.Dependency.product(name: "HTTPTypes", package: "swift-http-types")
let hummingbird = Target.Dependency.product(name: "Hummingbird", package: "hummingbird")
let hummingbirdCore = Target.Dependency.product(name: "HummingbirdCore", package: "hummingbird")
let jwtKit = Target.Dependency.product(name: "JWTKit", package: "jwt-kit")
let logging = Target.Dependency.product(name: "Logging", package: "swift-log")
let metrics = Target.Dependency.product(name: "Metrics", package: "swift-metrics")
let metricsTestKit = Target.Dependency.product(name: "MetricsTestKit", package: "swift-metrics")
let nioConcurrency = Target.Dependency.product(name: "NIOConcurrencyHelpers", package: "swift-nio")
let nioCore = Target.Dependency.product(name: "NIOCore", package: "swift-nio")
let nioEmbedded = Target.Dependency.product(name: "NIOEmbedded", package: "swift-nio")
let nioFoundationCompat = Target.Dependency.product(name: "NIOFoundationCompat", package: "swift-nio")
let nioHTTP1 = Target.Dependency.product(name: "NIOHTTP1", package: "swift-nio")
let nioPosix = Target.Dependency.product(name: "NIOPosix", package: "swift-nio")
let nioSSL = Target.Dependency.product(name: "NIOSSL", package: "swift-nio-ssl")
let serviceLifecycle = Target.Dependency.product(name: "ServiceLifecycle", package: "swift-service-lifecycle")
let tomlKit = Target.Dependency.product(name: "TOMLKit", package: "TOMLKit")
let unixSignals = Target.Dependency.product(name: "UnixSignals", package: "swift-service-lifecycle")

let package = Package(
    name: "siwatch",
    platforms: [.macOS(.v15)],
    products: [
        .executable(name: "siwatch", targets: ["siwatch"]),
        .executable(name: "siwatch-simulator", targets: ["siwatch-simulator"]),
        .library(name: "SiwatchClient", targets: ["SiwatchClient"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.5.0"),
        .package(url: "https://github.com/apple/swift-async-algorithms", from: "1.1.0"),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.1.0"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.4.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.0"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.7.0"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.90.0"),
        .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.30.0"),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.8.0"),
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.16.0"),
        .package(url: "https://github.com/LebJe/TOMLKit", from: "0.6.0"),
        .package(url: "https://github.com/swift-server/async-http-client", from: "1.30.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
        .package(url: "https://github.com/vapor/jwt-kit", from: "5.2.0"),
    ],
    targets: [
        // What is true. No I/O.
        .target(name: "CredentialCore", swiftSettings: strict),
        // Tokens at rest.
        .target(name: "CredentialSealing", dependencies: ["CredentialCore", crypto, nioConcurrency], swiftSettings: strict),
        // HTTP in both directions, bounded in size, time and number.
        .target(
            name: "BoundedHTTP",
            dependencies: [
                "CredentialCore", ahc, hummingbird, hummingbirdCore, logging, nioConcurrency, nioCore, nioHTTP1, nioPosix, nioSSL,
                serviceLifecycle,
            ],
            swiftSettings: strict
        ),
        // How Apple speaks.
        .target(
            name: "AppleIdentity",
            dependencies: ["BoundedHTTP", "CredentialCore", ahc, crypto, cryptoExtras, jwtKit, nioConcurrency, nioHTTP1],
            swiftSettings: strict
        ),
        // What backends tell and ask over HTTP.
        .target(
            name: "BackendAPI",
            dependencies: ["CredentialCore", crypto, httpTypes, hummingbird, nioConcurrency, nioCore, nioFoundationCompat],
            resources: [.embedInCode("openapi.json")],
            swiftSettings: strict
        ),
        // News for backends, pushed to them.
        .target(
            name: "Webhooks",
            dependencies: ["BoundedHTTP", "CredentialCore", ahc, crypto, nioConcurrency, nioHTTP1],
            swiftSettings: strict
        ),
        // What stands in the tables of each store, and what is asked of them at leisure.
        .target(name: "CredentialTables", dependencies: ["CredentialCore", nioConcurrency], swiftSettings: strict),
        // One file on disk.
        .target(
            name: "SQLiteStore",
            dependencies: ["CredentialCore", "CredentialTables", grdb, grdbSQLite, nioConcurrency],
            swiftSettings: strict
        ),
        // The C library that speaks with PostgreSQL, loaded where it is needed.
        .target(name: "CLibpq"),
        // A schema of the backend's own database.
        .target(
            name: "PostgresStore",
            dependencies: ["CLibpq", "CredentialCore", "CredentialTables", nioConcurrency],
            swiftSettings: strict
        ),
        // When things happen.
        .target(
            name: "CredentialMonitor",
            dependencies: ["CredentialCore", asyncAlgorithms, coreMetrics, logging, metrics, nioConcurrency, serviceLifecycle],
            swiftSettings: strict
        ),
        // A swift-metrics backend that speaks Prometheus.
        .target(name: "PrometheusMetrics", dependencies: [coreMetrics, nioConcurrency], swiftSettings: strict),
        // The composition root.
        .executableTarget(
            name: "siwatch",
            dependencies: [
                "AppleIdentity", "BackendAPI", "BoundedHTTP", "CredentialCore", "CredentialMonitor", "CredentialSealing",
                "CredentialTables", "PostgresStore", "PrometheusMetrics", "SQLiteStore", "Webhooks",
                ahc, argumentParser, crypto, hummingbird, logging, nioConcurrency, nioCore, nioHTTP1, serviceLifecycle, tomlKit,
                unixSignals,
            ],
            // Links to files of the root.
            resources: [.embedInCode("Command/VERSION"), .embedInCode("Command/dependencies.json")],
            swiftSettings: strict
        ),

        // What a backend in Swift asks over HTTP. The only module with a public interface.
        .target(name: "SiwatchClient", dependencies: [ahc, crypto, nioConcurrency, nioCore, nioHTTP1], swiftSettings: strict),

        // MARK: Instruments

        // Apple on loopback. It shares no code with the rest, so that it cannot share a mistake.
        .target(
            name: "AppleSimulatorKit",
            dependencies: [
                ahc, crypto, cryptoExtras, hummingbird, hummingbirdCore, logging, nioConcurrency, nioCore, nioHTTP1, nioPosix,
                serviceLifecycle,
            ],
            path: "Instruments/AppleSimulatorKit",
            resources: [.embedInCode("openapi.json")],
            swiftSettings: strict
        ),
        .executableTarget(
            name: "siwatch-simulator",
            dependencies: ["AppleSimulatorKit", "DaemonHarness", argumentParser, logging, serviceLifecycle, unixSignals],
            path: "Instruments/siwatch-simulator",
            swiftSettings: strict
        ),

        // The programs as processes of their own, for the demo, the benchmarks and the tests from end to end.
        .target(
            name: "DaemonHarness",
            dependencies: [
                "AppleSimulatorKit", "CLibpq",
                ahc, argumentParser, grdb, hummingbird, hummingbirdCore, logging, nioConcurrency, nioCore, nioFoundationCompat, nioHTTP1,
                nioSSL, serviceLifecycle, unixSignals,
            ],
            path: "Instruments/DaemonHarness",
            swiftSettings: strict
        ),
        .executableTarget(
            name: "siwatch-demo",
            dependencies: [
                // The programs that it runs are built with it.
                "AppleSimulatorKit", "DaemonHarness", "SiwatchClient", "siwatch-simulator", "siwatch", ahc, argumentParser, nioConcurrency,
            ],
            path: "Instruments/siwatch-demo",
            swiftSettings: strict
        ),
        .executableTarget(
            name: "siwatch-bench",
            dependencies: [
                // The programs that it runs are built with it.
                "AppleIdentity", "AppleSimulatorKit", "BoundedHTTP", "CLibpq", "CredentialCore", "CredentialSealing", "CredentialTables",
                "DaemonHarness", "PostgresStore", "SQLiteStore", "siwatch-simulator", "siwatch",
                ahc, argumentParser, grdb, grdbSQLite, nioConcurrency, nioCore, nioHTTP1,
            ],
            path: "Instruments/siwatch-bench",
            swiftSettings: strict
        ),
        // An example, built here so that make test-examples can use it.
        .executableTarget(
            name: "hummingbird-backend",
            dependencies: ["SiwatchClient", ahc, httpTypes, hummingbird, nioCore],
            path: "Examples/hummingbird/Sources/Backend"
        ),
        // The next release's migration, for tests that kill it.
        .executableTarget(
            name: "siwatch-next",
            dependencies: ["CredentialTables", "PostgresStore", "SQLiteStore", argumentParser],
            path: "Instruments/siwatch-next",
            swiftSettings: strict
        ),
        // Lives through seeds of the simulation, in a release build.
        .executableTarget(
            name: "siwatch-simulate",
            dependencies: [
                "CredentialCore", "CredentialTables", "CredentialTesting", "DaemonHarness", "PostgresStore", argumentParser, grdb,
                nioConcurrency,
            ],
            path: "Instruments/siwatch-simulate",
            swiftSettings: strict
        ),

        // MARK: Tests

        // What tests hold, the simulation among it.
        .target(
            name: "CredentialTesting",
            dependencies: [
                "CredentialCore", "CredentialMonitor", "CredentialTables", "SQLiteStore", coreMetrics, grdb, logging, nioConcurrency,
            ],
            path: "Tests/CredentialTesting",
            swiftSettings: strict
        ),
        .testTarget(name: "CredentialCoreTests", dependencies: ["CredentialCore", "CredentialTesting"], swiftSettings: strict),
        .testTarget(name: "CredentialSealingTests", dependencies: ["CredentialCore", "CredentialSealing", crypto], swiftSettings: strict),
        .testTarget(
            name: "BoundedHTTPTests",
            dependencies: [
                "BoundedHTTP", "CredentialCore",
                ahc, hummingbird, logging, nioConcurrency, nioCore, nioEmbedded, nioHTTP1, nioPosix, nioSSL, serviceLifecycle,
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "AppleIdentityTests",
            dependencies: [
                "AppleIdentity", "BoundedHTTP", "CredentialCore", "CredentialTesting",
                ahc, crypto, cryptoExtras, hummingbird, jwtKit, logging, nioConcurrency, nioCore, serviceLifecycle,
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "StoreTests",
            dependencies: [
                "BoundedHTTP", "CLibpq", "CredentialCore", "CredentialTables", "CredentialTesting", "DaemonHarness", "PostgresStore",
                "SQLiteStore", "Webhooks", "siwatch", "siwatch-next", ahc, grdb, nioConcurrency,
            ],
            exclude: ["Migration/Frozen", "PostgresSchema.sql", "Schema.sql"],
            swiftSettings: strict
        ),
        .testTarget(
            name: "CredentialMonitorTests",
            dependencies: [
                "CredentialCore", "CredentialMonitor", "CredentialTables", "CredentialTesting", "DaemonHarness", "SQLiteStore",
                coreMetrics, grdb, logging, metricsTestKit, nioConcurrency, serviceLifecycle,
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "SimulationTests",
            dependencies: ["CredentialTesting", "DaemonHarness", "siwatch-simulate"],
            swiftSettings: strict
        ),
        .testTarget(name: "WebhooksTests", dependencies: ["CredentialCore", "Webhooks"], swiftSettings: strict),
        .testTarget(name: "PrometheusMetricsTests", dependencies: ["PrometheusMetrics", metrics], swiftSettings: strict),
        .testTarget(
            name: "AppleSimulatorKitTests",
            dependencies: [
                "AppleSimulatorKit", "DaemonHarness",
                ahc, crypto, jwtKit, logging, nioCore, nioFoundationCompat, nioHTTP1, serviceLifecycle,
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "SiwatchTests",
            dependencies: [
                // The programs that they run are built with them.
                "AppleIdentity", "AppleSimulatorKit", "BackendAPI", "CredentialCore", "CredentialMonitor", "CredentialSealing",
                "CredentialTables", "CredentialTesting", "DaemonHarness", "PostgresStore", "PrometheusMetrics", "SQLiteStore",
                "SiwatchClient", "siwatch-simulator", "siwatch", "siwatch-next",
                ahc, argumentParser, crypto, grdb, hummingbird, logging, nioConcurrency, nioCore, nioHTTP1, nioPosix, nioSSL,
                serviceLifecycle, tomlKit,
            ],
            swiftSettings: strict
        ),
    ]
)
