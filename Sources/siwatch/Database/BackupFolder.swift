// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation

/// A folder of copies whose names tell their time.
struct BackupFolder {
    var path: String
    /// How many copies stay.
    var keep: Int

    /// For example `siwatch-20261126T021500Z.sqlite`. The names sort by time.
    func newFile(at now: Timestamp) -> String {
        let stamp = now.text.prefix(19).filter { $0 != "-" && $0 != ":" }
        return "\(path)/siwatch-\(stamp)Z.sqlite"
    }

    /// Removes the oldest copies, and no other file.
    ///
    /// - Returns: the removed files.
    func removeOld() throws(CommandFailure) -> [String] {
        do {
            let names = try FileManager.default.contentsOfDirectory(atPath: path).filter {
                $0.wholeMatch(of: /siwatch-\d{8}T\d{6}Z\.sqlite/) != nil
            }
            let old = names.sorted().dropLast(keep).map { "\(path)/\($0)" }
            for file in old { try FileManager.default.removeItem(atPath: file) }
            return old
        } catch {
            throw .failed("\(path.printable): an old copy cannot be removed: \(error.localizedDescription)")
        }
    }
}
