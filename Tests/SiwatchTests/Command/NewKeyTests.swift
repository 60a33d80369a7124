// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation
import Testing

/// `siwatch secret new sealing-key`.
struct NewKeyTests {
    private func make(_ arguments: String...) async throws -> (status: Int32, output: [String]) {
        return try await CommandCall.siwatch(["secret", "new", "sealing-key"] + arguments)
    }

    @Test func aNewKeyIsPrintedOrWrittenAndNeverTwice() async throws {
        try await Site.with { site in
            let folder = site.folder
            let file = folder.url.appending(path: "siwatch.key")
            var publicKeys = try await [folder.siwatch("secret", "public-key").output.joined()]
            try FileManager.default.removeItem(at: file)

            let (status, output) = try await make()
            #expect(status == 0)
            try Data(output.joined(separator: "\n").utf8).write(to: file)
            try #require(chmod(file.path, 0o400) == 0)
            publicKeys.append(try await folder.siwatch("secret", "public-key").output.joined())

            let refused = try await make(file.path)
            #expect(refused.status == 1 && refused.output.joined().contains("exists already and is left as it is"), "\(refused.output)")
            #expect(try await folder.siwatch("secret", "public-key").output.joined() == publicKeys[1])

            try FileManager.default.removeItem(at: file)
            let written = try await make(file.path)
            #expect(written.status == 0 && written.output.isEmpty, "\(written.output)")
            #expect(try FileManager.default.attributesOfItem(atPath: file.path)[.posixPermissions] as? Int == 0o600)
            publicKeys.append(try await folder.siwatch("secret", "public-key").output.joined())

            #expect(publicKeys.allSatisfy { $0.hasPrefix("siwatch-public-key-1:") }, "\(publicKeys)")
            #expect(Set(publicKeys).count == 3)
        }
    }
}
