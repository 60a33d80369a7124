// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// Refresh tokens that stand in clear somewhere in a folder.
enum ReadableTokens {
    /// Counts the tokens that any file of the folder contains.
    static func count(_ tokens: [String], in folder: URL) throws -> Int {
        let files = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
            .map { try Data(contentsOf: $0) }
        // One pass over the files for all tokens: what begins like one of them is compared with it.
        let beginnings = Dictionary(grouping: Set(tokens)) { Array($0.utf8).withUnsafeBytes(beginning) }
        var found: Set<String> = []
        for file in files {
            file.withUnsafeBytes { bytes in
                for start in bytes.indices.dropLast(MemoryLayout<UInt64>.size - 1) {
                    guard let candidates = beginnings[beginning(UnsafeRawBufferPointer(rebasing: bytes[start...]))] else { continue }
                    found.formUnion(candidates.filter { bytes[start...].starts(with: $0.utf8) })
                }
            }
        }
        return found.count
    }

    private static func beginning(_ bytes: UnsafeRawBufferPointer) -> UInt64 { bytes.loadUnaligned(as: UInt64.self) }
}
