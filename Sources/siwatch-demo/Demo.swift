@main struct Demo { static func main() async throws {} }
