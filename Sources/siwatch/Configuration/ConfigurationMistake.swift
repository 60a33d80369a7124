// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// It never quotes a value, because somebody may have pasted a key in the place of its file name.
struct ConfigurationMistake: Error, Equatable, CustomStringConvertible {
    enum Place: Sendable, Equatable {
        case file
        /// A point in the text of the file. Both numbers count from 1.
        case position(line: Int, column: Int)
        /// A path such as `app[0].key[1].file`. Elements count from 0.
        case key(String)
    }

    var place: Place
    var problem: String
    /// What helps to find the place in the file, if it is known: the line of a key, or the key of a line.
    var hint: String?

    static func at(_ key: String, _ problem: String) -> ConfigurationMistake {
        ConfigurationMistake(place: .key(key), problem: problem)
    }

    func found(in lines: KeyLines) -> ConfigurationMistake {
        var mistake = self
        switch place {
        case .file: break
        case .position(let line, _): mistake.hint = lines.key(at: line)?.printable
        case .key(let path): mistake.hint = lines.line(of: path).map { "line \($0)" }
        }
        return mistake
    }

    var description: String {
        let hint = hint.map { " (\($0))" } ?? ""
        return switch place {
        case .file: problem
        case .position(let line, let column): "line \(line), column \(column)\(hint): \(problem)"
        case .key(let path): "\(path)\(hint): \(problem)"
        }
    }
}

/// All mistakes in a configuration: exit code 78.
struct InvalidConfiguration: Error, Equatable, CustomStringConvertible {
    var source: String
    /// Never empty.
    var mistakes: [ConfigurationMistake]

    var lines: [String] { mistakes.map { "\(source): \($0)" } }
    var description: String { lines.joined(separator: "\n") }
}
