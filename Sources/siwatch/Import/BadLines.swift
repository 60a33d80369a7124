// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// The lines of a file that were left out: the first of them here, all of them in a file if the operator names one.
final class BadLines {
    private(set) var count = 0
    private(set) var first: [BadLine] = []
    private let file: FileHandle?

    /// How many lines are shown. A file of another company may have millions of bad ones.
    static let mostShown = 20

    /// - Parameter path: a file to write all of them to; nil for none. A file that is there is written anew.
    init(writingTo path: String?) throws(CommandFailure) {
        guard let path else {
            file = nil
            return
        }
        let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .failed("\(path.printable) cannot be written: \(systemError())") }
        file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
    }

    func append(_ line: BadLine) throws(CommandFailure) {
        count += 1
        if first.count < Self.mostShown { first.append(line) }
        guard let file else { return }
        do {
            try file.write(contentsOf: Data("\(line.text)\n".utf8))
        } catch {
            throw .failed("the file of --errors cannot be written: \(error)")
        }
    }

    /// For people: the first lines, and how many more there are.
    var texts: [String] {
        let more = count - first.count
        return first.map(\.text) + (more > 0 ? ["and \(more.counted("more line"))"] : [])
    }
}
