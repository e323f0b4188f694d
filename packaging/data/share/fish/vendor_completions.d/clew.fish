function __clew_words
    set -l words (commandline -opc) (commandline -ct)
    clew completion --words $words[2..-1] 2>/dev/null
end
complete -c clew -a '(__clew_words)'
