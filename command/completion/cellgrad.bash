# SPDX-License-Identifier: Apache-2.0
# Printed by command/completion/make.sh bash: change that file.
# Prints the options of those cells that the words of the command line name.
_cellgrad_options()
{
	local word
	for word; do
		case $word in
		lstm_block) echo 'peephole' ;;
		lstm) echo 'peephole' ;;
		*/* | *.cell) [[ ! -f $word ]] || sed -n 's/^[[:space:]]*option[[:space:]]\{1,\}\([A-Za-z_0-9]*\).*/\1/p' "$word" ;;
		esac
	done
}
_cellgrad()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} words list=
	COMPREPLY=()
	# Bash cuts --option=value at the equals sign.
	if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD - 2]}; fi
	if ((COMP_CWORD == 1)); then
		words='run convert emit cell check info demo bench cache help --help --version'
		COMPREPLY=($(compgen -W "$words" -- "$cur"))
		return
	fi
	case $command:$prev in
	run:--output | run:-o | run:--expect | run:-e) words='@files' ;;
	emit:--output | emit:-o | emit:--manifest | emit:-m) words='@files' ;;
	bench:--plot | bench:-p | demo:--svg | cell:--svg) words='@files' ;;
	demo:--data | demo:-d) words='@folders' ;;
	emit:--options | cell:--options) words='@options' ;;
	*:--dtype | check:-d | emit:-d | bench:-d | cell:-d) words='f16 bf16 f32 f64' ;;
	*:--backend | check:-b | *:--ref | check:-r | *:--switch | *:--why | info:-w) words='cpu cuda opencl' ;;
	convert:--from | convert:--to) words='cellgrad canonical pytorch keras block block_v2 checkpoint onnx' ;;
	emit:--pass | emit:-p) words='forward grad gradgrad seq_forward seq_grad' ;;
	emit:--lang | emit:-l) words='c opencl cuda' ;;
	emit:--shape | emit:-s) words='point scan' ;;
	bench:--op | bench:-o) words='lstm_block_cell LSTMBlockCell lstm_block_cell_grad LSTMBlockCellGrad gru_block_cell GRUBlockCell gru_block_cell_grad GRUBlockCellGrad block_lstm BlockLSTM block_lstm_grad BlockLSTMGrad block_lstm_v2 BlockLSTMV2 block_lstm_grad_v2 BlockLSTMGradV2 rnn CudnnRNNV3 rnn_v2 CudnnRNNV2 rnn_v1 CudnnRNN rnn_backprop CudnnRNNBackpropV3 rnn_backprop_v2 CudnnRNNBackpropV2 rnn_backprop_v1 CudnnRNNBackprop rnn_params_size CudnnRNNParamsSize rnn_params_to_canonical CudnnRNNParamsToCanonicalV2 rnn_params_to_canonical_v1 CudnnRNNParamsToCanonical rnn_canonical_to_params CudnnRNNCanonicalToParamsV2 rnn_canonical_to_params_v1 CudnnRNNCanonicalToParams' ;;
	bench:--what | bench:-w) words='fwd bwd fwd+bwd' ;;
	bench:--mode | bench:-m) words='lstm gru rnn_tanh rnn_relu' ;;
	check:--suite | check:-s) words='quick full' ;;
	demo:--cell) words='lstm_block gru_block lstm gru rnn_tanh rnn_relu cifg indrnn janet leaky_integrator ligru ln_gru ln_lstm mgu mingru minlstm slstm sru @cells' ;;
	demo:--only) words='compare train' ;;
	help:*) words='run convert emit cell check info demo bench cache' ;;
	run:--rtol | run:--atol | convert:--from-prefix | convert:--to-prefix | emit:--stage | cell:--seed | check:--seed | check:--max-time | check:-t | demo:--steps | demo:--time | demo:--seed | bench:--B | bench:--I | bench:--H | bench:--T | bench:--layers | bench:--valid | bench:--threads | bench:-t | bench:--time | bench:--reps | bench:-r) words= ;;
	*)
		case $command:$cur in
		run:-*) words='--output= --expect= --strict --ignore-metadata --rtol= --atol= --json --help' ;;
		convert:-*) words='--from= --to= --from-prefix= --to-prefix= --dtype= --gradients --force --ignore-extra --ignore-metadata --json --help' ;;
		emit:-*) words='--pass= --dtype= --lang= --options= --shape= --stage= --header --manifest= --output= --list --source --json --help' ;;
		cell:-*) words='--options= --dtype= --seed= --svg= --json --help' ;;
		check:-*) words='--backend= --ref= --suite= --seed= --max-time= --dtype= --json --help' ;;
		info:-*) words='--why= --json --help' ;;
		demo:-*) words='--only= --data= --cell= --steps= --time= --seed= --switch= --svg= --no-svg --json --help' ;;
		bench:-*) words='--op= --B= --I= --H= --T= --layers= --valid= --dtype= --what= --mode= --threads= --time= --reps= --plot= --json --help' ;;
		cache:-*) words='--json --help' ;;
		run:*) words='lstm_block_cell LSTMBlockCell lstm_block_cell_grad LSTMBlockCellGrad gru_block_cell GRUBlockCell gru_block_cell_grad GRUBlockCellGrad block_lstm BlockLSTM block_lstm_grad BlockLSTMGrad block_lstm_v2 BlockLSTMV2 block_lstm_grad_v2 BlockLSTMGradV2 rnn CudnnRNNV3 rnn_v2 CudnnRNNV2 rnn_v1 CudnnRNN rnn_backprop CudnnRNNBackpropV3 rnn_backprop_v2 CudnnRNNBackpropV2 rnn_backprop_v1 CudnnRNNBackprop rnn_params_size CudnnRNNParamsSize rnn_params_to_canonical CudnnRNNParamsToCanonicalV2 rnn_params_to_canonical_v1 CudnnRNNParamsToCanonical rnn_canonical_to_params CudnnRNNCanonicalToParamsV2 rnn_canonical_to_params_v1 CudnnRNNCanonicalToParams @files' ;;
		check:*) words='lstm_block_cell LSTMBlockCell lstm_block_cell_grad LSTMBlockCellGrad gru_block_cell GRUBlockCell gru_block_cell_grad GRUBlockCellGrad block_lstm BlockLSTM block_lstm_grad BlockLSTMGrad block_lstm_v2 BlockLSTMV2 block_lstm_grad_v2 BlockLSTMGradV2 rnn CudnnRNNV3 rnn_v2 CudnnRNNV2 rnn_v1 CudnnRNN rnn_backprop CudnnRNNBackpropV3 rnn_backprop_v2 CudnnRNNBackpropV2 rnn_backprop_v1 CudnnRNNBackprop rnn_params_size CudnnRNNParamsSize rnn_params_to_canonical CudnnRNNParamsToCanonicalV2 rnn_params_to_canonical_v1 CudnnRNNParamsToCanonical rnn_canonical_to_params CudnnRNNCanonicalToParamsV2 rnn_canonical_to_params_v1 CudnnRNNCanonicalToParams lstm_block gru_block lstm gru rnn_tanh rnn_relu cifg indrnn janet leaky_integrator ligru ln_gru ln_lstm mgu mingru minlstm slstm sru @cells' ;;
		info:*) words='lstm_block_cell LSTMBlockCell lstm_block_cell_grad LSTMBlockCellGrad gru_block_cell GRUBlockCell gru_block_cell_grad GRUBlockCellGrad block_lstm BlockLSTM block_lstm_grad BlockLSTMGrad block_lstm_v2 BlockLSTMV2 block_lstm_grad_v2 BlockLSTMGradV2 rnn CudnnRNNV3 rnn_v2 CudnnRNNV2 rnn_v1 CudnnRNN rnn_backprop CudnnRNNBackpropV3 rnn_backprop_v2 CudnnRNNBackpropV2 rnn_backprop_v1 CudnnRNNBackprop rnn_params_size CudnnRNNParamsSize rnn_params_to_canonical CudnnRNNParamsToCanonicalV2 rnn_params_to_canonical_v1 CudnnRNNParamsToCanonical rnn_canonical_to_params CudnnRNNCanonicalToParamsV2 rnn_canonical_to_params_v1 CudnnRNNCanonicalToParams' ;;
		emit:* | cell:*) words='lstm_block gru_block lstm gru rnn_tanh rnn_relu cifg indrnn janet leaky_integrator ligru ln_gru ln_lstm mgu mingru minlstm slstm sru @cells' ;;
		convert:*) words='@files' ;;
		cache:*) words='path list clear' ;;
		*) words= ;;
		esac ;;
	esac
	case $words in
	*@options)
		# In a list of options with commas, the completion completes the last option.
		[[ $cur != *,* ]] || list=${cur%,*},
		words=$(_cellgrad_options "${COMP_WORDS[@]:2}") ;;
	*@files) COMPREPLY=($(compgen -f -- "$cur")) ;;
	*@folders) COMPREPLY=($(compgen -d -- "$cur")) ;;
	*@cells) COMPREPLY=($(compgen -d -- "$cur") $(compgen -f -X '!*.cell' -- "$cur")) ;;
	esac
	COMPREPLY+=($(compgen -P "$list" -W "${words%@*}" -- "${cur#"$list"}"))
	[[ ${COMPREPLY[0]-} != --*= ]] || compopt -o nospace 2>/dev/null
}
complete -o filenames -F _cellgrad cellgrad
