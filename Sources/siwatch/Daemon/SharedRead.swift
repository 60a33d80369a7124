// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Reads the database for many readers. One of them at a time reads, and each waits for a moment only, so that a database that does not
/// answer holds up no page.
actor SharedRead {
    nonisolated let patience: Duration
    private var isUnderWay = false

    init(patience: Duration) {
        self.patience = patience
    }

    /// Reads, unless somebody does so already.
    ///
    /// - Returns: whether the read has ended in time.
    @discardableResult
    func run(_ read: @escaping @Sendable () async -> Void) async -> Bool {
        let start = ContinuousClock.now
        if !isUnderWay {
            isUnderWay = true
            // Not a child of the reader, who does not wait for it to the end. It ends with the read.
            Task {
                await read()
                isUnderWay = false
            }
        }
        while isUnderWay, !Task.isCancelled, ContinuousClock.now - start < patience { try? await Task.sleep(for: .milliseconds(5)) }
        return !isUnderWay
    }
}
