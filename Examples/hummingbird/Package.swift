// swift-tools-version: 6.1
// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import PackageDescription

let package = Package(
    name: "backend",
    platforms: [.macOS(.v15)],
    dependencies: [
        // Or siwatch's repository, by its URL.
        .package(name: "siwatch", path: "../.."),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.4.0"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.90.0"),
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.16.0"),
        .package(url: "https://github.com/swift-server/async-http-client", from: "1.21.0"),
    ],
    targets: [
        .executableTarget(
            name: "Backend",
            dependencies: [
                .product(name: "SiwatchClient", package: "siwatch"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "NIOCore", package: "swift-nio"),
            ]
        )
    ]
)
