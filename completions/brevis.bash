# Completes the options and files of brevis in bash: source this, or put it as `brevis` into
# /usr/share/bash-completion/completions.
_brevis() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} options
    options="-d --decompress -z --compress -t --test -l --list --json --salvage -r --recursive -c --stdout
        -o --output -f --force -k --keep --rm -1 --fast -2 -3 -4 -5 -6 -7 -8 -9 --best -T --threads -M --memory
        -q --quiet -v --verbose --progress --no-progress -h --help -V --version"
    COMPREPLY=()
    case $before in
        -T | --threads | -M | --memory) return ;;
    esac
    compopt -o filenames 2> /dev/null
    if [[ $word == -* && $before != -o && $before != --output ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
    fi
}
complete -F _brevis brevis
