
# The word that is being completed, as it was typed: bash cuts it at colons.
_pagewell_typed() {
    local line=${COMP_LINE:0:COMP_POINT} mark=$'\001'
    line=${line//\\ /$mark}
    line=${line##*[[:space:]]}
    line=${line//$mark/ }
    line=${line//\\/}
    printf '%s' "${line#[\'\"]}"
}

# Offers what begins so inside a source, as SOURCE::/PATH.
_pagewell_inside() {
    local typed=$1 source path directory name quoted cut
    source=${typed%%::/*}
    path=/${typed#*::/}
    directory=${path%/*}
    cut=''
    case $COMP_WORDBREAKS in *:*) cut=${path%"${path##*:}"} ;; *) cut=none ;; esac
    COMPREPLY=()
    # A server that does not answer would hold the shell.
    case $source in *://*) return ;; esac
    while IFS= read -r name; do
        [[ $directory/$name == "$path"* ]] || continue
        printf -v quoted %q "$directory/$name"
        if [[ $cut == none ]]; then
            quoted=$source::$quoted
        else
            quoted=${quoted#"$cut"}
        fi
        COMPREPLY+=("$quoted")
    done < <("${COMP_WORDS[0]/#\~/$HOME}" ls -1p -- "$source::$directory/" 2>/dev/null)
    compopt -o nospace 2>/dev/null
    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} != */ ]]; then
        COMPREPLY[0]+=' '
    fi
}

_pagewell_words() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} typed offered word
    typed=$(_pagewell_typed)
    if [[ $COMP_CWORD -ge 2 && $typed != -* ]]; then
        case $before in
            @OPTIONS@) ;;
            *)
                case ${COMP_WORDS[1]} in
                    @COMMANDS@)
                        if [[ $typed == *:: ]]; then
                            compopt -o nospace 2>/dev/null
                            COMPREPLY=(/)
                        elif [[ $typed == *::/* ]]; then
                            _pagewell_inside "$typed"
                        else
                            case $current in :*) current=${current##*:} ;; esac
                            compopt -o filenames 2>/dev/null
                            mapfile -t COMPREPLY < <(compgen -f -- "$current")
                            if [[ ${#COMPREPLY[@]} == 0 && $typed == "$current" ]]; then
                                compopt +o filenames -o nospace 2>/dev/null
                                mapfile -t COMPREPLY < <(compgen -W '@KINDS@' -- "$typed")
                            fi
                        fi
                        return
                        ;;
                esac
                ;;
        esac
    fi
    _pagewell "$@"
    offered=("${COMPREPLY[@]}")
    COMPREPLY=()
    for word in "${offered[@]}"; do
        case $word in
            '['* | '<'* | [[:upper:]]*) ;;
            *) COMPREPLY+=("$word") ;;
        esac
    done
}

complete -F _pagewell_words -o bashdefault -o default pagewell
