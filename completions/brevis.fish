# Completes the options and files of brevis in fish: put this into ~/.config/fish/completions.
complete -c brevis -s d -l decompress -d 'Decompress'
complete -c brevis -s z -l compress -d 'Compress (the default)'
complete -c brevis -s t -l test -d 'Check the whole of each archive, write nothing'
complete -c brevis -s l -l list -d 'List sizes; with -v or --json the tensors too'
complete -c brevis -l json -d 'List in JSON'
complete -c brevis -l salvage -d 'Decompress what is intact, with zeros for what is lost'
complete -c brevis -s r -l recursive -d 'Work on all files in folders'
complete -c brevis -s c -l stdout -d 'Write to standard output'
complete -c brevis -s o -l output -r -F -d 'Write to FILE'
complete -c brevis -s f -l force -d 'Replace files, follow links, use terminals'
complete -c brevis -s k -l keep -d 'Keep sources (the default)'
complete -c brevis -l rm -d 'Remove each source when its target is complete'
complete -c brevis -s 1 -l fast -d 'Faster'
complete -c brevis -s 2
complete -c brevis -s 3
complete -c brevis -s 4
complete -c brevis -s 5
complete -c brevis -s 6 -d 'The default level'
complete -c brevis -s 7
complete -c brevis -s 8
complete -c brevis -s 9 -l best -d 'Smaller'
complete -c brevis -s T -l threads -x -d 'Use N threads; 0, the default, is all'
complete -c brevis -s M -l memory -x -d 'Decode within SIZE bytes, or refuse'
complete -c brevis -s q -l quiet -d 'Leave out warnings'
complete -c brevis -s v -l verbose -d 'Tell what was done'
complete -c brevis -l progress -d 'Show a bar at once'
complete -c brevis -l no-progress -d 'Show no bar, for long work neither'
complete -c brevis -s h -l help -d 'Show the options'
complete -c brevis -s V -l version -d 'Show the version'
