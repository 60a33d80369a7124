// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Dispatch
import Foundation
import NIOConcurrencyHelpers

/// Writes lines on a thread of its own, so that a stalled reader blocks no code that logs. Lines that find the buffer full are dropped and
/// counted. It lives as long as the process.
final class LogWriter: Sendable {
    private let descriptor: Int32
    private let note: @Sendable (_ dropped: Int) -> String
    private let state = NIOLockedValueBox(State())
    private let isFilled = DispatchSemaphore(value: 0)

    private struct State {
        var buffer: [UInt8] = []
        var isWriting = false
        /// Lines dropped since the buffer was last taken.
        var dropped = 0
        /// Lines dropped since the last `takeDropped`.
        var untold = 0
    }

    /// How many bytes may wait for writing: thousands of lines.
    static let capacity = 1 << 20

    /// - Parameter note: makes the line that says how many lines were dropped before it.
    init(to descriptor: Int32, note: @escaping @Sendable (_ dropped: Int) -> String) {
        self.descriptor = descriptor
        self.note = note
        Thread.detachNewThread { [self] in
            while true {
                isFilled.wait()
                while let bytes = take() { write(bytes) }
            }
        }
    }

    func write(_ line: String) {
        let isAwaited = state.withLockedValue { state -> Bool in
            guard state.buffer.count + line.utf8.count < Self.capacity else {
                state.dropped += 1
                state.untold += 1
                return false
            }
            defer {
                state.buffer += line.utf8
                state.buffer.append(UInt8(ascii: "\n"))
            }
            return state.buffer.isEmpty && !state.isWriting
        }
        if isAwaited { isFilled.signal() }
    }

    func takeDropped() -> Int {
        state.withLockedValue { state in
            defer { state.untold = 0 }
            return state.untold
        }
    }

    func drain(within limit: Duration) {
        let end = ContinuousClock.now + limit
        while !state.withLockedValue({ $0.buffer.isEmpty && !$0.isWriting }), .now < end { usleep(1000) }
    }

    /// - Returns: the bytes that wait for writing. Nil if none wait.
    private func take() -> [UInt8]? {
        let (bytes, dropped) = state.withLockedValue { state -> ([UInt8], Int) in
            defer {
                state.isWriting = !state.buffer.isEmpty
                state.buffer = []
                state.dropped = 0
            }
            return (state.buffer, state.dropped)
        }
        guard !bytes.isEmpty else { return nil }
        return dropped > 0 ? bytes + (note(dropped) + "\n").utf8 : bytes
    }

    private func write(_ bytes: [UInt8]) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Foundation.write(descriptor, $0.baseAddress, $0.count) }
            if count >= 0 {
                rest = rest.dropFirst(count)
            } else if errno == EAGAIN {
                // Another process shares the descriptor and made it non-blocking.
                var place = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                poll(&place, 1, -1)
            } else if errno != EINTR {
                // For instance, the disk is full.
                return
            }
        }
    }
}
