// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Crypto
import Foundation

/// A record of a CSV file: the fields of one line, or of several lines if a quoted field holds line breaks.
struct CSVRecord: Sendable, Equatable {
    /// The line on which the record begins, from 1.
    var line: Int
    /// At most two more than `mostFields`: the rest of a longer line is dropped.
    var fields: [[UInt8]]

    /// A line with more fields is no line of an export.
    static let mostFields = 1000

    /// Whether the line holds nothing at all.
    var isBlank: Bool { fields == [[]] }
}

/// Why the rest of a file is not told.
enum FileFailure: Error, Equatable {
    /// A quote opens on this line and does not close within `CSVReader.longestRecord`.
    case openQuote(line: Int)
    case longRecord(line: Int)
    /// The system's reason.
    case unreadable(String)
    /// The file is another one than a moment ago.
    case changed

    /// - Parameter name: of the file.
    func text(_ name: String) -> String {
        switch self {
        case .openQuote(let line): "\(name), line \(line): a quote opens and does not close; nothing from this line on can be read"
        case .longRecord(let line): "\(name), line \(line): the line is longer than 1 MiB; nothing from this line on can be read"
        case .unreadable(let reason): "\(name) cannot be read: \(reason)"
        case .changed: "\(name) has changed while siwatch import read it, so its rest was not told; repeat the command once it is complete"
        }
    }
}

/// Reads a CSV file record by record, by RFC 4180: quoted fields, doubled quotes, line breaks in quotes, LF or CRLF, a byte order mark.
///
/// It exists because SwiftCSV takes the whole text as one `String`, and an export may have 10 GB. It holds a quarter of a mebibyte, and one
/// record. A comma separates the fields; a semicolon or a tab does so in a file whose first line has no comma.
struct CSVReader {
    private let descriptor: Int32
    private var buffer: [UInt8] = []
    private var position = 0
    private var separator = UInt8(ascii: ",")
    private var line = 1
    /// How much of the file was read, in bytes.
    private(set) var offset = 0
    /// Of everything that was read.
    private(set) var digest = SHA256()

    /// In bytes. A longer record is no record.
    static let longestRecord = 1 << 20
    /// How much is read before the first record, in bytes, if the file is that long.
    private static let beginningLength = 65_536

    private enum Place {
        case plain, quoted
        /// After a quote in quotes, which ends them or is the first of two.
        case afterQuote
    }

    /// - Parameter name: names the file in messages.
    /// - Throws: if the file cannot be read or is no text.
    init(descriptor: Int32, name: String) throws(CommandFailure) {
        var first: [UInt8] = []
        do throws(FileFailure) {
            while first.count < Self.beginningLength {
                let more = try Self.read(descriptor, upTo: Self.beginningLength - first.count)
                if more.isEmpty { break }
                first += more
            }
        } catch {
            throw .failed(error.text(name))
        }
        guard !first.starts(with: [0xff, 0xfe]), !first.starts(with: [0xfe, 0xff]) else {
            throw .wrongUsage("\(name) is UTF-16: save it as UTF-8")
        }
        self.descriptor = descriptor
        buffer = first
        digest.update(data: first)
        offset = first.count
        if first.starts(with: [0xef, 0xbb, 0xbf]) { position = 3 }
        let header = first.prefix { $0 != UInt8(ascii: "\n") }
        separator = [",", "\t", ";"].map { UInt8(ascii: $0) }.first { header.contains($0) } ?? separator
    }

    /// The next record that is not blank; nil at the end of the file.
    mutating func next() throws(FileFailure) -> CSVRecord? {
        while let record = try anyRecord() {
            if !record.isBlank { return record }
        }
        return nil
    }

    private mutating func anyRecord() throws(FileFailure) -> CSVRecord? {
        let start = line
        var fields: [[UInt8]] = []
        var field: [UInt8] = []
        var place = Place.plain
        var (isEmpty, wasQuoted, endsInReturn) = (true, false, false)
        var size = 0
        while let byte = try nextByte() {
            isEmpty = false
            size += 1
            guard size <= Self.longestRecord else { throw place == .quoted ? FileFailure.openQuote(line: start) : .longRecord(line: start) }
            if byte == UInt8(ascii: "\n") { line += 1 }
            if place == .quoted {
                if byte == UInt8(ascii: "\"") { place = .afterQuote } else { field.append(byte) }
                continue
            }
            if place == .afterQuote, byte == UInt8(ascii: "\"") {
                field.append(byte)
                place = .quoted
                continue
            }
            place = .plain
            switch byte {
            case UInt8(ascii: "\"") where field.isEmpty && !wasQuoted: (place, wasQuoted) = (.quoted, true)
            case separator:
                if fields.count <= CSVRecord.mostFields { fields.append(field) }
                (field, wasQuoted) = ([], false)
            case UInt8(ascii: "\n"):
                if endsInReturn { field.removeLast() }
                return CSVRecord(line: start, fields: fields + [field])
            default: field.append(byte)
            }
            endsInReturn = byte == UInt8(ascii: "\r")
        }
        guard place != .quoted else { throw .openQuote(line: start) }
        return isEmpty ? nil : CSVRecord(line: start, fields: fields + [field])
    }

    private mutating func nextByte() throws(FileFailure) -> UInt8? {
        if position == buffer.count {
            buffer = try Self.read(descriptor, upTo: 262_144)
            position = 0
            offset += buffer.count
            digest.update(data: buffer)
            if buffer.isEmpty { return nil }
        }
        defer { position += 1 }
        return buffer[position]
    }

    /// Empty at the end of the file.
    private static func read(_ descriptor: Int32, upTo length: Int) throws(FileFailure) -> [UInt8] {
        var chunk = [UInt8](repeating: 0, count: length)
        while true {
            let count = Foundation.read(descriptor, &chunk, chunk.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw .unreadable(systemError()) }
            chunk.removeLast(chunk.count - count)
            return chunk
        }
    }
}
