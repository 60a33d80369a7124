// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

extension String {
    /// The word that was probably meant: the nearest of them, at most two edits away. Nil if none is that near.
    func nearest(among words: some Sequence<String>) -> String? {
        // Two edits make any word of another one that is as short.
        let most = Swift.min(2, count / 2)
        return words.map { (word: $0, distance: distance(to: $0)) }
            .filter { $0.distance <= most }
            .min { ($0.distance, $0.word) < ($1.distance, $1.word) }?.word
    }

    /// How many characters have to be added, removed, replaced, or exchanged with their neighbour (the optimal string alignment distance).
    private func distance(to other: String) -> Int {
        let (left, right) = (Array(self), Array(other))
        guard abs(left.count - right.count) <= 2 else { return .max }
        var before: [Int] = []
        var last = Array(0...right.count)
        for (row, character) in left.enumerated() {
            var next = [row + 1]
            for (column, candidate) in right.enumerated() {
                var cost = Swift.min(last[column + 1] + 1, next[column] + 1, last[column] + (character == candidate ? 0 : 1))
                if row > 0, column > 0, character == right[column - 1], left[row - 1] == candidate {
                    cost = Swift.min(cost, before[column - 1] + 1)
                }
                next.append(cost)
            }
            (before, last) = (last, next)
        }
        return last[right.count]
    }
}
