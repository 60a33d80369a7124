// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import NIOConcurrencyHelpers

extension NIOLockedValueBox {
    /// `withLockedValue` for a body with typed throws.
    func withLock<Success, Failure>(_ body: (inout Value) throws(Failure) -> Success) throws(Failure) -> Success {
        try withLockedValue { value in
            Result { () throws(Failure) in try body(&value) }
        }.get()
    }
}
