// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package enum StoreError: Error, Sendable {
    /// Another connection holds the lock; later.
    case busy
    /// No space is left. It heals itself when space returns.
    case full
    /// This batch breaks a rule of the schema: repeating it cannot help.
    case refused(String)
    /// The file is not what SQLite wrote.
    case damaged(String)
    /// The system does not let this process write the file.
    case readOnly(String)
    /// Reading or writing failed, and whether the commit happened is not known.
    case outcomeUnknown(String)
}
