// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// One thing that is wrong with a configuration, and where.
///
/// It never quotes a value: somebody may have pasted a key where its file should be named.
struct ConfigurationMistake: Error, Equatable, Codable {
    enum Place: Sendable, Equatable, Codable {
        /// The file as a whole.
        case file
        /// A point in its text; both count from 1.
        case position(line: Int, column: Int)
        /// A path such as `app[0].key[1].file`; elements count from 0.
        case key(String)
    }

    var place: Place
    /// What is wrong there, as the end of a sentence.
    var problem: String

    static func at(_ key: String, _ problem: String) -> ConfigurationMistake {
        ConfigurationMistake(place: .key(key), problem: problem)
    }
}

extension ConfigurationMistake: CustomStringConvertible {
    var description: String {
        switch place {
        case .file: problem
        case .position(let line, let column): "line \(line), column \(column): \(problem)"
        case .key(let path): "\(path): \(problem)"
        }
    }
}

/// Everything that is wrong with a configuration: exit code 78.
struct InvalidConfiguration: Error, Equatable {
    /// The TOML file.
    var source: String
    /// Never empty.
    var mistakes: [ConfigurationMistake]
    /// Nothing is known to be wrong with it, but it could not be read now: exit code 69.
    var isTransient = false
}

extension InvalidConfiguration: CustomStringConvertible {
    /// One for each mistake.
    var lines: [String] { mistakes.map { "\(source): \($0)" } }

    var description: String { lines.joined(separator: "\n") }
}
