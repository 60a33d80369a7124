// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

extension Import {
    /// What became of the lines of a file.
    struct Report: Encodable {
        var id: String
        var told = 0
        /// Rows that an earlier run of the import had told.
        var knownBefore = 0
        /// Rows of this run or of the earlier one that brought the token of an earlier sign-in, and so changed nothing. Nil if siwatch was not
        /// waited for, or if that could not be read.
        var retold: Int?
        /// Lines of this run that bring a token.
        var tokens = 0
        var bad = 0
        /// When siwatch was first told a pipe of the same beginning; nil if never.
        var firstToldAt: String?
        var trial: ImportTrial.Result?

        var text: String {
            let known = knownBefore > 0 ? ", and \(knownBefore.grouped) before" : ""
            var effect = ""
            if let retold, retold > 0 {
                effect = """
                     \(retold.grouped) of them changed nothing (retold): siwatch has their tokens from earlier sign-ins. If those earlier times \
                    were too early, import the lines with their true times and an empty refresh_token: a time that is too late hides a \
                    revocation.
                    """
            }
            if tokens > 0 {
                effect += """
                     siwatch asks Apple about their tokens over one refresh.interval; siwatch rejected NAME lists those that Apple \
                    rejects.
                    """
            }
            return """
                Import \(id): \(told.grouped) sign-ins told\(known).\(effect) siwatch import --undo \(id) takes the import back.
                """
        }
    }
}
