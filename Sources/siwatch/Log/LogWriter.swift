// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Dispatch
import Foundation
import NIOConcurrencyHelpers

/// Writes lines on a thread of its own, so that a stalled reader blocks no code that logs. Lines that find the buffer full, or that the system
/// refuses, are dropped and counted. It lives as long as the process.
final class LogWriter: Sendable {
    private let descriptor: Int32
    private let note: @Sendable (_ dropped: Int) -> String
    private let state = NIOLockedValueBox(State())
    private let isFilled = DispatchSemaphore(value: 0)

    private struct State {
        var buffer: [UInt8] = []
        var isWriting = false
        /// Lines dropped since the log last said so.
        var dropped = 0
        /// Whether the log is to say so although no other line waits.
        var isNoteDue = false
        /// Lines dropped since the last `takeDropped`.
        var untold = 0
        var lost: LostLines?

        mutating func drop(_ lines: Int) {
            dropped += lines
            untold += lines
            let now = WallClock.system.now
            lost = LostLines(count: (lost?.count ?? 0) + lines, firstAt: lost?.firstAt ?? now, lastAt: now, isOver: false)
        }
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
                while let (bytes, dropped) = take() { write(bytes, after: dropped) }
            }
        }
    }

    /// Since the start; nil if none was.
    var lostLines: LostLines? {
        state.withLockedValue { state in
            var lost = state.lost
            lost?.isOver = state.dropped == 0 && !state.isWriting
            return lost
        }
    }

    func write(_ line: String) {
        let isAwaited = state.withLockedValue { state -> Bool in
            guard state.buffer.count + line.utf8.count < Self.capacity else {
                state.drop(1)
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

    /// How many lines were dropped since the last call. If the log has not said so yet, it tries again.
    func takeDropped() -> Int {
        let (untold, isAwaited) = state.withLockedValue { state in
            defer {
                state.untold = 0
                state.isNoteDue = state.dropped > 0
            }
            return (state.untold, state.dropped > 0 && state.buffer.isEmpty && !state.isWriting)
        }
        if isAwaited { isFilled.signal() }
        return untold
    }

    /// Waits until all lines are written, for the end of the process.
    func drain(within limit: Duration) {
        let end = ContinuousClock.now + limit
        while !state.withLockedValue({ $0.buffer.isEmpty && !$0.isNoteDue && !$0.isWriting }), .now < end { usleep(1000) }
    }

    /// - Returns: the bytes that wait, and how many lines were dropped that the log has not told of. Nil if nothing is to be written.
    private func take() -> (bytes: [UInt8], dropped: Int)? {
        state.withLockedValue { state in
            let isSomething = !state.buffer.isEmpty || state.isNoteDue
            defer {
                state.isWriting = isSomething
                (state.buffer, state.dropped, state.isNoteDue) = ([], isSomething ? 0 : state.dropped, false)
            }
            return isSomething ? (state.buffer, state.dropped) : nil
        }
    }

    /// The note of dropped lines comes last: lines that waited in the buffer are older.
    private func write(_ bytes: [UInt8], after dropped: Int) {
        let refused = write(bytes)
        if refused > 0 { state.withLockedValue { $0.drop(refused) } }
        guard dropped > 0 else { return }
        // For instance, the disk is full. The note is no line that anybody misses.
        if refused > 0 || write(Array((note(dropped) + "\n").utf8)) > 0 { state.withLockedValue { $0.dropped += dropped } }
    }

    /// - Returns: how many lines the system refused.
    private func write(_ bytes: [UInt8]) -> Int {
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
                return rest.count { $0 == UInt8(ascii: "\n") }
            }
        }
        return 0
    }
}

struct LostLines: Equatable, Encodable {
    var count: Int
    var firstAt: Timestamp
    var lastAt: Timestamp
    /// Whether the log has been written again since, and has told of the lost lines.
    var isOver: Bool
}
