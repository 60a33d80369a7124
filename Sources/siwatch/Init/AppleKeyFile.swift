// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleIdentity
import CredentialCore
import Foundation

/// A `.p8` file, as Apple hands it out once.
struct AppleKeyFile {
    var path: String
    /// Empty if neither the name of the file nor somebody has told it.
    var id: String

    /// The only key file of a folder; nil if it has none, or several.
    static func onlyOne(in folder: String) -> String? {
        let names = ((try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []).filter { id(inName: $0) != nil }
        return names.count == 1 ? "\(folder)/\(names[0])" : nil
    }

    fileprivate static func id(inName path: String) -> String? {
        URL(filePath: path).lastPathComponent.wholeMatch(of: /AuthKey_([A-Z0-9]{10})\.p8/).map { String($0.1) }
    }
}

extension AppleKeyFile: Equatable {
    /// Whether both files hold the same key. One of them may not know its id yet.
    static func == (left: AppleKeyFile, right: AppleKeyFile) -> Bool {
        ([left.id, right.id].contains("") || left.id == right.id)
            && FileManager.default.contents(atPath: left.path) == FileManager.default.contents(atPath: right.path)
    }
}

extension AppleKeyFile {
    /// - Parameter id: nil to take that of the file's name.
    /// - Throws: why the file holds no key that Apple's servers take.
    init(_ pasted: String, id: String?) throws(CommandFailure) {
        let path = pasted.asPastedPath
        self.init(path: path, id: try id.map(InitAnswers.appleID) ?? Self.id(inName: path) ?? "")
        _ = try read()
    }

    /// The text of the file, and the key in it.
    func read() throws(CommandFailure) -> (text: String, key: ClientSecretKey) {
        do {
            let text = try TextFile.read(path, limit: Configuration.longestKeyFile, mayBeDER: true)
            return (text, try ClientSecretKey(id: id, text: Secret(text)))
        } catch let error as TextFileError {
            throw .wrongUsage("\(path.printable) \(error)")
        } catch {
            throw .wrongUsage("\(path.printable): \(error)")
        }
    }
}
