select topic, name, n from holdfast_signal where topic not in ('arrival', 'return')
