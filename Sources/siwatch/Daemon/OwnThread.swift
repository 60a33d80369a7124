// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// Does what waits for files, programs or the system's resolver on a thread of its own, so that everything else goes on meanwhile.
func onOwnThread<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
    let invocation = Invocation.current
    return try await withCheckedThrowingContinuation { continuation in
        Thread.detachNewThread {
            continuation.resume(with: Result { try Invocation.$current.withValue(invocation, operation: body) })
        }
    }
}
