// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import Testing

@testable import siwatch

@Suite struct DecisionFileTests {
    private let folder: TemporaryFolder
    private var socket: String { "\(folder.path)/run/siwatch.sock" }

    init() throws { folder = try TemporaryFolder() }

    @Test func theNextProcessFindsWhatIsKept() throws {
        mkdir("\(folder.path)/run", 0o700)
        let file = try #require(DecisionFile(beside: socket))
        #expect(file.load() == nil)
        file.save("first")
        file.save("second")
        #expect(try #require(DecisionFile(beside: socket)).load() == "second")
        #expect(try FileManager.default.contentsOfDirectory(atPath: "\(folder.path)/run") == ["siwatch.sock.limits"])
    }

    @Test func whereABackendCanWriteNothingIsKept() {
        mkdir("\(folder.path)/run", 0o700)
        chmod("\(folder.path)/run", 0o770)
        #expect(DecisionFile(beside: socket) == nil)
        #expect(DecisionFile(beside: nil) == nil)
    }
}
