// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation
import Testing

/// `siwatch backup` that ends in the middle of its work.
@Suite(.timeLimit(.minutes(5))) struct BackupKillTests {
    @Test func aBackupThatIsCutShortCostsNoCopy() async throws {
        try await Site.with { site in
            let folder = site.folder.url.appending(path: "copies")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
            let names = ["siwatch-20200101T000000Z.sqlite", "siwatch-20210101T000000Z.sqlite"]
            for name in names { try await site.folder.succeed("backup", folder.appending(path: name).path) }
            // 64 MB, so that a copy takes longer than a look.
            try await site.backend.execute(
                """
                INSERT INTO notification_queue (payload)
                WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) SELECT hex(randomblob(32000)) FROM n
                """
            )
            for signal in [SIGKILL, SIGTERM, SIGINT] {
                let process = try site.folder.start("backup", "--keep", "3", folder.path)
                try await eventually { try Self.files(in: folder).contains { !names.contains($0) } }
                process.signal(signal)
                #expect(await process.exit() != 0)
                let left = try Self.files(in: folder).filter { !$0.contains(".partial") }
                #expect(left == names, "\(signal): \(left)")
            }
            let (status, output) = try await site.folder.siwatch("backup", "--keep", "3", folder.path)
            #expect(status == 0 && !output.joined().contains("removed"), "\(output)")
            let left = try Self.files(in: folder)
            #expect(left.count == 3 && Array(left.prefix(2)) == names && left[2].hasSuffix("Z.sqlite"), "\(left)")
            let backend = try Backend(databasePath: folder.appending(path: left[2]).path)
            #expect(try await backend.int("SELECT COUNT(*) FROM notification_queue") == 1000)
            try backend.close()
        }
    }

    private static func files(in folder: URL) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
    }
}
