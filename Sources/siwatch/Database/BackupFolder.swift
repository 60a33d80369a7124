// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import SQLiteStore

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

    /// Removes the oldest copies and the drafts of runs that were cut short, and no other file.
    ///
    /// A run of an older siwatch that was cut short has left less than a copy under the name of one.
    /// - Returns: the removed copies, and the files that have the name of a copy and are none.
    func removeOld() throws(CommandFailure) -> (removed: [String], broken: [String]) {
        do {
            let names = try FileManager.default.contentsOfDirectory(atPath: path).sorted()
            let named = names.filter { $0.wholeMatch(of: /siwatch-\d{8}T\d{6}Z\.sqlite/) != nil }.map { "\(path)/\($0)" }
            let drafts = names.filter { $0.wholeMatch(of: /siwatch-\d{8}T\d{6}Z\.sqlite\.partial/) != nil }
            for draft in drafts { SQLiteStore.removeDraft("\(path)/\(draft)") }
            let whole = named.filter { (try? DatabaseFile(path: $0).inspect()).map { $0 != .none } ?? false }
            let old = Array(whole.dropLast(keep))
            for file in old { try FileManager.default.removeItem(atPath: file) }
            return (old, named.filter { !whole.contains($0) })
        } catch {
            throw .failed("\(path.printable): an old copy cannot be removed: \(error.localizedDescription)")
        }
    }
}
