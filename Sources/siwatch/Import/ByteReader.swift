// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Crypto
import Foundation

/// Yields records of a file, the names of their fields first.
protocol RecordReader {
    /// How much of the file was read, in bytes.
    var offset: Int { get }
    /// Of everything that was read.
    var digest: SHA256 { get }
    /// The next record; nil at the end of the file.
    mutating func next() throws(CommandFailure) -> CSVRecord?
}

/// Reads a file of UTF-8 byte by byte, without its byte order mark. It holds a quarter of a mebibyte.
struct ByteReader {
    private let descriptor: Int32
    private let name: String
    private var buffer: [UInt8] = []
    private var position = 0
    private(set) var offset = 0
    private(set) var digest = SHA256()

    /// How much is read before the first byte, in bytes, if the file is that long.
    private static let beginningLength = 65_536

    init(descriptor: Int32, name: String) throws(CommandFailure) {
        (self.descriptor, self.name) = (descriptor, name)
        while buffer.count < Self.beginningLength {
            let more = try read(upTo: Self.beginningLength - buffer.count)
            if more.isEmpty { break }
            buffer += more
        }
        guard !buffer.starts(with: [0xff, 0xfe]), !buffer.starts(with: [0xfe, 0xff]) else {
            throw .wrongUsage("\(name) is UTF-16: save it as UTF-8")
        }
        digest.update(data: buffer)
        offset = buffer.count
        if buffer.starts(with: [0xef, 0xbb, 0xbf]) { position = 3 }
    }

    /// What was read and is not taken yet.
    var unread: ArraySlice<UInt8> { buffer[position...] }

    mutating func next() throws(CommandFailure) -> UInt8? {
        if position == buffer.count {
            buffer = try read(upTo: 262_144)
            position = 0
            offset += buffer.count
            digest.update(data: buffer)
            if buffer.isEmpty { return nil }
        }
        defer { position += 1 }
        return buffer[position]
    }

    /// Empty at the end of the file.
    private func read(upTo length: Int) throws(CommandFailure) -> [UInt8] {
        var chunk = [UInt8](repeating: 0, count: length)
        while true {
            let count = Foundation.read(descriptor, &chunk, chunk.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw .failed("\(name) cannot be read: \(systemError())") }
            chunk.removeLast(chunk.count - count)
            return chunk
        }
    }
}
